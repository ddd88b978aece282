//! Where the server may listen.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A Unix socket.
    Unix(PathBuf),
    /// TCP on the loopback.
    Tcp(SocketAddr),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "http://{address}"),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("`unix:` needs a path".to_owned());
            }
            return std::path::absolute(path)
                .map(Self::Unix)
                .map_err(|error| error.to_string());
        }
        // `localhost` without asking the resolver, whose answer could be any address.
        let numeric = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        let address: SocketAddr = numeric.parse().map_err(|_| {
            format!(
                "{text:?} is neither `HOST:PORT` with a numeric loopback address nor `unix:PATH`"
            )
        })?;
        if address.ip().is_loopback() {
            Ok(Self::Tcp(address))
        } else {
            Err(format!(
                "{text} is not a loopback address, and the service has no authentication yet: whoever reaches it may \
                 write to the repositories; listen on 127.0.0.1 or [::1]"
            ))
        }
    }
}
