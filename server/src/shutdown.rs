//! The end: asked for by a signal, and not put off for ever.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signals that end the server.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes over SIGTERM and SIGINT. Early: a signal before this kills the process in the middle of what it does.
    pub fn take() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Cancels the token at the first signal, and ends the process at the second.
    pub async fn watch(mut self, shutdown: CancellationToken) {
        let name = self.next().await;
        tracing::info!("{name}: finishing what runs; a second signal ends at once");
        shutdown.cancel();
        let name = self.next().await;
        tracing::warn!(
            "{name} again: ending at once; what was cut short is put right at the next start"
        );
        // The journal makes this safe, as it makes a crash safe.
        std::process::exit(130);
    }
}
