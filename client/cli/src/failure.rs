//! What can go wrong, how it is told, and the exit code that it gives.

use std::{io, process::ExitCode};

use serde_json::json;
use worktreed_client::{Code, EndpointError, Error};

use crate::text::plain_lines;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The service refused, or could not be reached.
    Call(Error),
    /// What was typed makes no sense.
    Usage(String),
    /// A file, a pipe or the terminal.
    Io(io::Error),
    /// Anything else.
    Other(anyhow::Error),
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// Tells people or scripts what happened, and returns the exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        // Whoever read our output has seen enough, as `head` does. That is no error.
        if matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe) {
            return ExitCode::SUCCESS;
        }
        if json {
            eprintln!("{}", self.to_json());
        } else {
            eprintln!("{}", self.to_text());
        }
        ExitCode::from(self.exit_code())
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Call(error) => exit_code_of(error.code()),
            Self::Usage(_) => 2,
            Self::Io(_) | Self::Other(_) => 1,
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!("error: {}", self.message());
        if let Self::Call(error) = self {
            if error.code() == Code::Unavailable && error.reason_name().is_none() {
                text +=
                    "\n  Is the server running? Start it with: worktreed serve --allow-root DIR";
                text += "\n  or say where it is: --endpoint, WORKTREED_ENDPOINT";
            }
            for violation in error.field_violations() {
                text += &format!("\n  {}: {}", violation.field, violation.description);
            }
            for violation in error.precondition_violations() {
                text += &format!(
                    "\n  {} {}: {}",
                    violation.kind, violation.subject, violation.description
                );
            }
            for (name, value) in error.metadata() {
                text += &format!("\n  {name}: {value}");
            }
            if let Some(delay) = error.retry_delay() {
                text += &format!("\n  try again in {}s", delay.as_secs_f64().ceil());
            }
        }
        plain_lines(&text)
    }

    fn to_json(&self) -> serde_json::Value {
        let Self::Call(error) = self else {
            let code = if matches!(self, Self::Usage(_)) {
                "INVALID_ARGUMENT"
            } else {
                "UNKNOWN"
            };
            return json!({"error": {"code": code, "message": self.message()}});
        };
        let fields: Vec<_> = error
            .field_violations()
            .iter()
            .map(
                |violation| json!({"field": violation.field, "description": violation.description}),
            )
            .collect();
        let preconditions: Vec<_> = error
            .precondition_violations()
            .iter()
            .map(|violation| {
                json!({"type": violation.kind, "subject": violation.subject, "description": violation.description})
            })
            .collect();
        json!({"error": {
            "code": code_name(error.code()),
            "reason": error.reason_name(),
            "message": error.message(),
            "metadata": error.metadata(),
            "field_violations": fields,
            "precondition_violations": preconditions,
            "retry_delay_seconds": error.retry_delay().map(|delay| delay.as_secs_f64()),
        }})
    }

    fn message(&self) -> String {
        match self {
            Self::Call(error) => error.to_string(),
            Self::Usage(message) => message.clone(),
            Self::Io(error) => error.to_string(),
            Self::Other(error) => format!("{error:#}"),
        }
    }
}

/// Returns the exit code for a class of errors. Documented in the help.
fn exit_code_of(code: Code) -> u8 {
    match code {
        Code::Ok => 0,
        Code::InvalidArgument => 2,
        Code::NotFound => 3,
        Code::FailedPrecondition | Code::OutOfRange => 4,
        Code::AlreadyExists | Code::Aborted => 5,
        Code::PermissionDenied | Code::Unauthenticated => 6,
        Code::Unavailable | Code::DeadlineExceeded => 7,
        Code::ResourceExhausted => 8,
        Code::Cancelled | Code::Unknown | Code::Unimplemented | Code::Internal | Code::DataLoss => {
            1
        }
    }
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<EndpointError> for Failure {
    fn from(error: EndpointError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic::Status;
    use tonic_types::{ErrorDetails, StatusExt};

    use super::*;

    fn call(code: Code) -> Failure {
        Failure::Call(Error::from(Status::new(code, "no")))
    }

    #[test]
    fn exit_codes_go_by_the_class_of_the_error() {
        let expected = [
            (Code::InvalidArgument, 2),
            (Code::NotFound, 3),
            (Code::FailedPrecondition, 4),
            (Code::OutOfRange, 4),
            (Code::AlreadyExists, 5),
            (Code::Aborted, 5),
            (Code::PermissionDenied, 6),
            (Code::Unauthenticated, 6),
            (Code::Unavailable, 7),
            (Code::DeadlineExceeded, 7),
            (Code::ResourceExhausted, 8),
            (Code::Internal, 1),
            (Code::Unimplemented, 1),
        ];
        for (code, exit) in expected {
            assert_eq!(call(code).exit_code(), exit, "{code:?}");
        }
        assert_eq!(Failure::usage("what?").exit_code(), 2);
    }

    #[test]
    fn an_error_is_told_with_its_reason_to_scripts_and_with_its_details_to_people() {
        let mut details = ErrorDetails::new();
        let metadata = HashMap::from([("holder".to_owned(), "anna\u{1b}[31m".to_owned())]);
        details.set_error_info("LEASE_HELD", "worktree.v1", metadata);
        details.add_bad_request_violation("key.task_id", "is empty");
        let status = Status::with_error_details(Code::FailedPrecondition, "held", details);
        let failure = Failure::Call(Error::from(status));

        let json = failure.to_json();
        assert_eq!(json["error"]["code"], "FAILED_PRECONDITION");
        assert_eq!(json["error"]["reason"], "LEASE_HELD");
        assert_eq!(json["error"]["field_violations"][0]["field"], "key.task_id");
        assert_eq!(
            failure.to_text(),
            "error: held (LEASE_HELD)\n  key.task_id: is empty\n  holder: anna\u{fffd}[31m"
        );
    }
}
