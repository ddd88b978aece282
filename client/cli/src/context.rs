//! What every command has: the client, and the way its answer is shown.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use worktree_proto::Name;
use worktreed_client::{Client, Deadlines, Endpoint, proto::Warning};

use crate::{args::GlobalArgs, failure::Failure, json::to_json, text::plain};

/// The surroundings of a command.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) json: bool,
    pub(crate) show_progress: bool,
}

impl Context {
    pub(crate) fn new(arguments: &GlobalArgs) -> Result<Self, Failure> {
        let endpoint = arguments
            .endpoint
            .clone()
            .map_or_else(Endpoint::from_env, Ok)?;
        let mut client = Client::new(&endpoint);
        if let Some(limit) = arguments.timeout {
            client = client.with_deadlines(Deadlines {
                read: Some(limit),
                write: Some(limit),
            });
        }
        // Nobody waits at a prompt as long as a service does for a server that is not running.
        let retry = worktreed_client::RetryPolicy {
            max_backoff: Duration::from_millis(500),
            ..client.retry()
        };
        Ok(Self {
            client: client.with_retry(retry),
            json: arguments.json,
            show_progress: !arguments.no_progress,
        })
    }

    /// Shows an answer: the message itself to scripts, what `to_text` makes of it to people.
    pub(crate) fn show<M: Name>(
        &self,
        message: &M,
        to_text: impl FnOnce(&M) -> String,
    ) -> Result<(), Failure> {
        if self.json {
            self.show_json(message)
        } else {
            print(to_text(message).as_bytes())
        }
    }

    /// Shows a message to scripts, on a line of its own.
    pub(crate) fn show_json<M: Name>(&self, message: &M) -> Result<(), Failure> {
        print(format!("{}\n", to_json(message)?).as_bytes())
    }

    /// Tells people what they are warned of. Scripts have it in the answer.
    pub(crate) fn warn(&self, warnings: &[Warning]) {
        if !self.json {
            for warning in warnings {
                eprintln!("warning: {}", plain(&warning.message));
            }
        }
    }
}

/// Writes to standard output at once: a reader of a stream must not wait for the next item.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(bytes)?;
    output.flush()?;
    Ok(())
}
