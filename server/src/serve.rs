//! The process: what is started in which order, and how it ends.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::{
    sync::oneshot,
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{service::Routes, transport::Server};
use tonic_health::{ServingStatus, server::HealthReporter};
use worktree_engine::{Engine, EngineConfig};

use crate::{
    api::{self, trace::TraceLayer},
    config::{Config, ListenAddress},
    events::EventHub,
    lifecycle::{Lifecycle, Settings},
    registry::Registry,
    sockets::{self, Listening},
    state_dir::StateDir,
};

/// How often a silent connection is asked whether anybody is there; a watcher whose machine vanished is noticed by it.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// How long the answer may take.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long connections may take to close once nothing runs any more: tonic would wait for ever for a silent one.
const CLOSING: Duration = Duration::from_secs(3);

/// Serves until `shutdown` is cancelled and what runs then has ended, or the grace period is over. `ready` is told the
/// addresses once calls are answered.
pub async fn serve(
    config: Config,
    shutdown: CancellationToken,
    ready: oneshot::Sender<Vec<ListenAddress>>,
) -> anyhow::Result<()> {
    let state = StateDir::lock(&config.state_dir)?;
    // Before all that takes long: an address that cannot be had is an error that its operator should see at once.
    // Connections wait in the sockets' queues meanwhile.
    let (sockets, addresses) = bind(&state, &config).await?;
    let registry = Registry::open(&state.registry()).await?;
    let engine = engine(&config, &registry).await?;
    let hub = EventHub::new(
        registry.clone(),
        shutdown.clone(),
        config.limits.max_watches,
    );
    let warnings = config.warnings();
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let grace = config.limits.grace_period;
    let service = Service::start(config, &state, registry.clone(), engine, hub, &shutdown).await?;

    let (health, routes) = with_standard_services(service.routes()).await?;
    let stop = CancellationToken::new();
    let mut servers = spawn_servers(sockets, &routes, &stop);
    for address in &addresses {
        tracing::info!("listening on {address}");
    }
    // Nobody may be waiting for it.
    drop(ready.send(addresses));

    let failed = tokio::select! {
        () = shutdown.cancelled() => None,
        Some(ended) = servers.join_next() => Some(ended),
    };
    shutdown.cancel();
    set_health(&health, ServingStatus::NotServing).await;
    if timeout_at(Instant::now() + grace, service.wait_idle())
        .await
        .is_err()
    {
        tracing::warn!(
            "operations still run after {grace:?}; they are put right at the next start"
        );
    }
    stop.cancel();
    let closed = async { while servers.join_next().await.is_some() {} };
    if timeout_at(Instant::now() + CLOSING, closed).await.is_err() {
        servers.abort_all();
    }
    drop(timeout_at(Instant::now() + CLOSING, registry.close()).await);
    match failed {
        None => Ok(()),
        Some(ended) => ended
            .context("a listener ended")?
            .context("a listener failed"),
    }
}

type Sockets = Vec<Listening>;

async fn bind(state: &StateDir, config: &Config) -> anyhow::Result<(Sockets, Vec<ListenAddress>)> {
    let own = ListenAddress::Unix(state.socket());
    let mut sockets = Vec::new();
    let mut addresses = Vec::new();
    for address in std::iter::once(&own).chain(&config.listen) {
        if addresses.contains(address) {
            continue;
        }
        let (socket, bound) = sockets::bind(address).await?;
        sockets.push(socket);
        addresses.push(bound);
    }
    Ok((sockets, addresses))
}

async fn engine(config: &Config, registry: &Registry) -> anyhow::Result<Arc<Engine>> {
    let limits = &config.limits;
    let settings = EngineConfig {
        namespace: config.namespace.clone(),
        git_binary: config.git_binary.clone(),
        allow_mirrors: config.allow_mirrors,
        max_saved_file: limits.saved_file_max_bytes,
        checkout_deadline: limits.checkout_deadline,
        git_deadline: limits.git_deadline,
        probe_deadline: limits.probe_deadline,
        lock_wait: limits.lock_wait,
        ..EngineConfig::new(&config.worktree_root, registry.instance_id().to_string())
    };
    let engine = tokio::task::spawn_blocking(move || Engine::new(settings)).await??;
    Ok(Arc::new(engine))
}

/// The names that health is asked by: the server as a whole, and each service.
const SERVICES: [&str; 7] = [
    "",
    "worktree.v1.WorktreeService",
    "worktree.v1.LeaseService",
    "worktree.v1.HandoffService",
    "worktree.v1.ReviewService",
    "worktree.v1.EventService",
    "worktree.v1.MaintenanceService",
];

async fn set_health(reporter: &HealthReporter, status: ServingStatus) {
    for service in SERVICES {
        reporter.set_service_status(service, status).await;
    }
}

async fn with_standard_services(routes: Routes) -> anyhow::Result<(HealthReporter, Routes)> {
    let (reporter, health) = tonic_health::server::health_reporter();
    set_health(&reporter, ServingStatus::Serving).await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(worktree_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    Ok((reporter, routes.add_service(health).add_service(reflection)))
}

fn spawn_servers(
    sockets: Sockets,
    routes: &Routes,
    stop: &CancellationToken,
) -> JoinSet<Result<(), tonic::transport::Error>> {
    let mut servers = JoinSet::new();
    for socket in sockets {
        let router = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .layer(TraceLayer)
            .add_routes(routes.clone());
        let stop = stop.clone().cancelled_owned();
        servers.spawn(async move {
            match socket {
                Listening::Unix(listener, _file) => {
                    let incoming = UnixListenerStream::new(listener);
                    router.serve_with_incoming_shutdown(incoming, stop).await
                }
                Listening::Tcp(incoming) => {
                    router.serve_with_incoming_shutdown(incoming, stop).await
                }
            }
        });
    }
    servers
}

/// The lifecycle and its services.
struct Service {
    lifecycle: Arc<Lifecycle>,
}

impl Service {
    /// Settles what an earlier run left, then starts what happens by itself.
    async fn start(
        config: Config,
        state: &StateDir,
        registry: Registry,
        engine: Arc<Engine>,
        hub: EventHub,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let settings = Settings {
            host_id: host_id(),
            state_dir: state.path().to_owned(),
            warnings: config.warnings(),
            allow_roots: canonical(config.allow_roots),
            repositories: config
                .repositories
                .into_iter()
                .map(|(name, path)| (name, std::fs::canonicalize(&path).unwrap_or(path)))
                .collect(),
            limits: config.limits,
        };
        let lifecycle = Lifecycle::new(engine, registry, hub, settings, shutdown.clone());
        lifecycle.recover().await?;
        let findings = lifecycle.reconcile(String::new(), String::new()).await?;
        if !findings.is_empty() {
            tracing::info!(count = findings.len(), "registry, git and disk disagreed");
        }
        lifecycle.start_timers();
        Ok(Self { lifecycle })
    }

    fn routes(&self) -> Routes {
        api::routes(&self.lifecycle)
    }

    async fn wait_idle(&self) {
        self.lifecycle.wait_idle().await;
    }
}

/// Roots are compared with resolved paths, so they are resolved too; one that is missing allows nothing yet.
fn canonical(roots: Vec<PathBuf>) -> Vec<PathBuf> {
    roots
        .into_iter()
        .map(|root| std::fs::canonicalize(&root).unwrap_or(root))
        .collect()
}

/// The name of this host.
fn host_id() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
