//! Where connections come from.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use tokio::net::{TcpListener, UnixListener};
use tonic::transport::server::TcpIncoming;

use crate::config::ListenAddress;

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub(crate) struct Error {
    address: String,
    source: io::Error,
}

/// A socket that is listened on.
#[derive(Debug)]
pub(crate) enum Listening {
    /// A Unix socket.
    Unix(UnixListener, SocketFile),
    /// TCP.
    Tcp(TcpIncoming),
}

/// The file of a Unix socket, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Gone already, or not ours to say: the next start looks again.
        drop(fs::remove_file(&self.0));
    }
}

/// Binds an address, and says where it listens (a port of 0 is one that the system chose).
pub(crate) async fn bind(address: &ListenAddress) -> Result<(Listening, ListenAddress), Error> {
    let failed = |source| Error {
        address: address.to_string(),
        source,
    };
    match address {
        ListenAddress::Unix(path) => {
            let listener = bind_unix(path).await.map_err(failed)?;
            let file = SocketFile(path.clone());
            Ok((Listening::Unix(listener, file), address.clone()))
        }
        ListenAddress::Tcp(socket) => {
            let listener = TcpListener::bind(socket).await.map_err(failed)?;
            let bound = listener.local_addr().map_err(failed)?;
            // Small messages one by one: what Nagle's algorithm holds back, a caller waits for.
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            Ok((Listening::Tcp(incoming), ListenAddress::Tcp(bound)))
        }
    }
}

async fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            match tokio::net::UnixStream::connect(path).await {
                Ok(_) => {
                    return Err(io::Error::new(
                        ErrorKind::AddrInUse,
                        "another process listens there",
                    ));
                }
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    // Nobody listens: left by a server that was killed.
                    fs::remove_file(path)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(_) => {
            return Err(io::Error::new(
                ErrorKind::AlreadyExists,
                "something that is no socket is there",
            ));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Bound under another name and moved into place with its mode: at no time can others connect, and whoever sees the
    // socket can.
    let directory = path.parent().unwrap_or_else(|| Path::new("/"));
    let private = tempfile::Builder::new()
        .prefix(".s")
        .rand_bytes(4)
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(directory)?;
    let first = private.path().join("s");
    let listener = UnixListener::bind(&first)?;
    fs::set_permissions(&first, fs::Permissions::from_mode(0o600))?;
    fs::rename(&first, path)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_goes_and_a_live_one_or_a_file_stays() {
        let directory = tempfile::tempdir().unwrap();
        let address = ListenAddress::Unix(directory.path().join("x.sock"));
        let path = directory.path().join("x.sock");
        let (first, _) = bind(&address).await.unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(bind(&address).await.is_err(), "somebody listens");
        let Listening::Unix(listener, file) = first else {
            panic!()
        };
        std::mem::forget(file);
        drop(listener);
        let (again, _) = bind(&address).await.unwrap();
        drop(again);
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(bind(&address).await.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
