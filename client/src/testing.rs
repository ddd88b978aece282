//! A server in this process that implements what a test needs and nothing else.
#![allow(clippy::unwrap_used)]

use std::{
    collections::HashMap,
    convert::Infallible,
    future::{Ready, ready},
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{Stream, future::BoxFuture};
use prost::Message;
use tokio::{net::UnixListener, sync::oneshot, task::JoinHandle};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Request, Response, Status,
    body::Body,
    server::{Grpc, NamedService, ServerStreamingService, UnaryService},
};
use tonic_prost::ProstCodec;

use crate::{Client, Endpoint};

type Handler =
    Arc<dyn Fn(http::Request<Body>) -> BoxFuture<'static, http::Response<Body>> + Send + Sync>;
pub(crate) type Items<A> = Pin<Box<dyn Stream<Item = Result<A, Status>> + Send>>;

/// The methods that a server knows.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    handlers: HashMap<&'static str, Handler>,
}

impl Fake {
    pub(crate) fn unary<Q, A>(
        self,
        path: &'static str,
        answer: impl Fn(Q) -> Result<A, Status> + Send + Sync + 'static,
    ) -> Self
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        self.unary_async(path, move |request| ready(answer(request)))
    }

    pub(crate) fn unary_async<Q, A, F>(
        mut self,
        path: &'static str,
        answer: impl Fn(Q) -> F + Send + Sync + 'static,
    ) -> Self
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
        F: Future<Output = Result<A, Status>> + Send + 'static,
    {
        let answer = Arc::new(answer);
        let handler: Handler = Arc::new(move |request| {
            let method = Method(answer.clone(), PhantomData);
            Box::pin(async move {
                Grpc::new(ProstCodec::<A, Q>::default())
                    .unary(method, request)
                    .await
            })
        });
        self.handlers.insert(path, handler);
        self
    }

    pub(crate) fn streaming<Q, A>(
        mut self,
        path: &'static str,
        answer: impl Fn(Q) -> Result<Items<A>, Status> + Send + Sync + 'static,
    ) -> Self
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let answer = Arc::new(answer);
        let handler: Handler = Arc::new(move |request| {
            let method = Method(answer.clone(), PhantomData);
            Box::pin(async move {
                Grpc::new(ProstCodec::<A, Q>::default())
                    .server_streaming(method, request)
                    .await
            })
        });
        self.handlers.insert(path, handler);
        self
    }

    /// Serves on a socket in a directory of its own until the server is dropped.
    pub(crate) fn serve(self) -> Running {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("fake.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tonic::transport::Server::builder()
            .add_service(Service::<0>(self.clone()))
            .add_service(Service::<1>(self.clone()))
            .add_service(Service::<2>(self))
            .serve_with_incoming_shutdown(UnixListenerStream::new(listener), async {
                let _ = stopped.await;
            });
        let task = tokio::spawn(async move { server.await.unwrap() });
        Running {
            endpoint: Endpoint::Unix(socket),
            task,
            _stop: stop,
            _directory: directory,
        }
    }
}

/// A wire that can be cut, between a client and a server that stays.
pub(crate) struct Wire {
    socket: std::path::PathBuf,
    server: std::path::PathBuf,
    task: JoinHandle<()>,
    _directory: tempfile::TempDir,
}

impl Wire {
    pub(crate) fn to(server: &Running) -> Self {
        let Endpoint::Unix(server) = server.endpoint.clone() else {
            unreachable!("the fake listens on a socket")
        };
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("wire.sock");
        let task = Self::lay(&socket, &server);
        Self {
            socket,
            server,
            task,
            _directory: directory,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&Endpoint::Unix(self.socket.clone())).with_retry(quick_retry())
    }

    /// Cuts every connection, as a server that is killed does, and takes new ones.
    pub(crate) async fn cut(&mut self) {
        self.task.abort();
        // Awaited, so that the sockets are closed before new ones are taken.
        let _ = (&mut self.task).await;
        std::fs::remove_file(&self.socket).unwrap();
        self.task = Self::lay(&self.socket, &self.server);
    }

    fn lay(socket: &std::path::Path, server: &std::path::Path) -> JoinHandle<()> {
        let listener = UnixListener::bind(socket).unwrap();
        let server = server.to_owned();
        tokio::spawn(async move {
            // Dropped with this task, and all connections with it.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let mut far = tokio::net::UnixStream::connect(&server).await.unwrap();
                connections
                    .spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
            }
        })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn quick_retry() -> crate::RetryPolicy {
    crate::RetryPolicy {
        max_attempts: 4,
        initial_backoff: std::time::Duration::from_millis(1),
        max_backoff: std::time::Duration::from_millis(2),
    }
}

pub(crate) struct Running {
    endpoint: Endpoint,
    task: JoinHandle<()>,
    _stop: oneshot::Sender<()>,
    _directory: tempfile::TempDir,
}

impl Running {
    /// Returns a client that waits next to nothing between tries.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.endpoint).with_retry(quick_retry())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Method<F, Q>(Arc<F>, PhantomData<fn(Q)>);

impl<C, Q, A, F> UnaryService<Q> for Method<C, Q>
where
    C: Fn(Q) -> F,
    F: Future<Output = Result<A, Status>> + Send + 'static,
{
    type Response = A;
    type Future = BoxFuture<'static, Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let answer = (self.0)(request.into_inner());
        Box::pin(async move { answer.await.map(Response::new) })
    }
}

impl<F, Q, A> ServerStreamingService<Q> for Method<F, Q>
where
    F: Fn(Q) -> Result<Items<A>, Status>,
{
    type Response = A;
    type ResponseStream = Items<A>;
    type Future = Ready<Result<Response<Items<A>>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        ready((self.0)(request.into_inner()).map(Response::new))
    }
}

#[derive(Clone)]
struct Service<const N: usize>(Fake);

impl NamedService for Service<0> {
    const NAME: &'static str = "worktree.v1.WorktreeService";
}
impl NamedService for Service<1> {
    const NAME: &'static str = "worktree.v1.LeaseService";
}
impl NamedService for Service<2> {
    const NAME: &'static str = "worktree.v1.EventService";
}

impl<const N: usize> tower::Service<http::Request<Body>> for Service<N> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match self.0.handlers.get(request.uri().path()) {
            Some(handler) => {
                let answer = handler(request);
                Box::pin(async move { Ok(answer.await) })
            }
            None => Box::pin(async { Ok(Status::unimplemented("not in this test").into_http()) }),
        }
    }
}
