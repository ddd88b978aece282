//! Where the server is, and how to reach it.

use std::{
    env,
    ffi::OsString,
    fmt, io,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Uri};

/// The environment variable that names the server.
pub const ENDPOINT_VARIABLE: &str = "WORKTREED_ENDPOINT";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that vanished without a word is noticed by this, also by a watch that only waits.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket: `unix:PATH`.
    Unix(PathBuf),
    /// Plain HTTP/2 over TCP: `http://host:port`.
    Http(Uri),
}

/// What is wrong with the address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The scheme is missing or not one of ours.
    #[error("endpoint {0:?} is neither unix:PATH nor http://host:port")]
    UnknownScheme(String),
    /// The scheme needs TLS.
    #[error(
        "endpoint {0:?} asks for TLS, which this client does not speak; use unix:PATH or http://host:port"
    )]
    TlsUnsupported(String),
    /// The path of a Unix socket is not absolute.
    #[error("the socket path in endpoint {0:?} is not absolute")]
    RelativePath(String),
    /// The rest is not a host and a port.
    #[error("endpoint {0:?} is not a valid http://host:port")]
    InvalidUri(String),
    /// Nothing says where the server's state is.
    #[error("neither {ENDPOINT_VARIABLE}, nor XDG_STATE_HOME, nor HOME is set: give the endpoint")]
    NoDefault,
}

impl Endpoint {
    /// Finds the server from the environment: `WORKTREED_ENDPOINT`, else the socket in the default state directory,
    /// `$XDG_STATE_HOME/worktreed` or `~/.local/state/worktreed`.
    pub fn from_env() -> Result<Self, EndpointError> {
        Self::from_variables(|name| env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, EndpointError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        if let Some(endpoint) = set(ENDPOINT_VARIABLE) {
            return endpoint.to_string_lossy().parse();
        }
        // The XDG rules: a relative path counts as not set.
        let state_home = set("XDG_STATE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| set("HOME").map(|home| Path::new(&home).join(".local/state")))
            .ok_or(EndpointError::NoDefault)?;
        Ok(Self::Unix(state_home.join("worktreed/worktreed.sock")))
    }

    /// Makes a channel that connects at the first call, and again whenever the connection was lost. Must be called
    /// within a tokio runtime.
    pub(crate) fn channel(&self) -> Channel {
        match self {
            Self::Unix(path) => {
                let path = path.clone();
                // The authority is `localhost`: a socket path in its place is refused by HTTP/2 servers.
                configure(Channel::from_static("http://localhost")).connect_with_connector_lazy(
                    tower::service_fn(move |_: Uri| {
                        let path = path.clone();
                        async move {
                            let connected = UnixStream::connect(&path).await;
                            // The error of the system alone does not say which path it is about.
                            connected.map(TokioIo::new).map_err(|error| {
                                io::Error::new(
                                    error.kind(),
                                    format!("cannot connect to {}: {error}", path.display()),
                                )
                            })
                        }
                    }),
                )
            }
            Self::Http(uri) => configure(Channel::builder(uri.clone())).connect_lazy(),
        }
    }
}

fn configure(endpoint: tonic::transport::Endpoint) -> tonic::transport::Endpoint {
    endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///run/x.sock` is how URIs write it, `unix:/run/x.sock` how gRPC does.
            let path = Path::new(path.strip_prefix("//").unwrap_or(path));
            return if path.is_absolute() {
                Ok(Self::Unix(path.to_owned()))
            } else {
                Err(EndpointError::RelativePath(text.to_owned()))
            };
        }
        if text.starts_with("https:") {
            return Err(EndpointError::TlsUnsupported(text.to_owned()));
        }
        if !text.starts_with("http://") {
            return Err(EndpointError::UnknownScheme(text.to_owned()));
        }
        let uri: Uri = text
            .parse()
            .map_err(|_| EndpointError::InvalidUri(text.to_owned()))?;
        let has_path = !matches!(uri.path(), "" | "/") || uri.query().is_some();
        if uri.host().is_none_or(str::is_empty) || uri.port_u16().is_none() || has_path {
            return Err(EndpointError::InvalidUri(text.to_owned()));
        }
        Ok(Self::Http(uri))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
            Self::Http(uri) => write!(formatter, "{}", uri.to_string().trim_end_matches('/')),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn from_variables(variables: &[(&str, &str)]) -> Result<Endpoint, EndpointError> {
        Endpoint::from_variables(|name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn both_schemes_are_read_and_written_back() {
        for text in [
            "unix:/run/worktreed.sock",
            "http://localhost:7420",
            "http://[::1]:7420",
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!(
            "unix:///run/a b.sock".parse(),
            Ok(Endpoint::Unix("/run/a b.sock".into()))
        );
    }

    #[test]
    fn what_cannot_be_reached_is_refused_with_its_reason() {
        let error = |text: &str| text.parse::<Endpoint>().unwrap_err();
        assert!(matches!(
            error("unix:run/a.sock"),
            EndpointError::RelativePath(_)
        ));
        assert!(matches!(
            error("https://host:1"),
            EndpointError::TlsUnsupported(_)
        ));
        assert!(matches!(
            error("localhost:7420"),
            EndpointError::UnknownScheme(_)
        ));
        assert!(matches!(error("http://host"), EndpointError::InvalidUri(_)));
        assert!(matches!(
            error("http://host:1/path"),
            EndpointError::InvalidUri(_)
        ));
        assert!(matches!(error(""), EndpointError::UnknownScheme(_)));
    }

    #[test]
    fn the_environment_decides_in_its_order() {
        let socket = |path: &str| Ok(Endpoint::Unix(path.into()));
        let all = [
            ("WORKTREED_ENDPOINT", "unix:/a"),
            ("XDG_STATE_HOME", "/state"),
            ("HOME", "/home/me"),
        ];
        assert_eq!(from_variables(&all), socket("/a"));
        assert_eq!(
            from_variables(&all[1..]),
            socket("/state/worktreed/worktreed.sock")
        );
        let relative = [("XDG_STATE_HOME", "state"), ("HOME", "/home/me")];
        assert_eq!(
            from_variables(&relative),
            socket("/home/me/.local/state/worktreed/worktreed.sock")
        );
        assert_eq!(
            from_variables(&[("WORKTREED_ENDPOINT", "")]),
            Err(EndpointError::NoDefault)
        );
    }
}
