//! Errors by code and reason.

use std::{collections::BTreeMap, error::Error as StdError, fmt, time::Duration};

use tonic::{Code, Status};
use tonic_types::StatusExt;
use worktree_proto::{ERROR_DOMAIN, policy::parse_wire_reason, v1::ErrorReason};

/// Why a call did not succeed.
#[derive(Debug)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    code: Code,
    message: String,
    reason_name: Option<String>,
    reason: Option<ErrorReason>,
    metadata: BTreeMap<String, String>,
    field_violations: Vec<FieldViolation>,
    precondition_violations: Vec<PreconditionViolation>,
    retry_delay: Option<Duration>,
    /// Whether the error arose on this side (the connection) and was not answered by a server.
    transport: bool,
    source: Option<Status>,
}

/// A field of the request that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldViolation {
    /// The path of the field, for example `key.task_id`.
    pub field: String,
    /// What is wrong with it.
    pub description: String,
}

/// Something that is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreconditionViolation {
    /// The kind of it.
    pub kind: String,
    /// The thing, for example a path.
    pub subject: String,
    /// More for people.
    pub description: String,
}

impl Error {
    /// Returns the canonical code.
    pub fn code(&self) -> Code {
        self.inner.code
    }

    /// Returns the message for people.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// Returns the reason, if the server gave one that this version knows.
    pub fn reason(&self) -> Option<ErrorReason> {
        self.inner.reason
    }

    /// Returns the name of the reason as the server gave it, known or not.
    pub fn reason_name(&self) -> Option<&str> {
        self.inner.reason_name.as_deref()
    }

    /// Returns what the reason comes with, for example the holder of a lease.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.inner.metadata
    }

    /// Returns the fields of the request that are wrong.
    pub fn field_violations(&self) -> &[FieldViolation] {
        &self.inner.field_violations
    }

    /// Returns what is in the way.
    pub fn precondition_violations(&self) -> &[PreconditionViolation] {
        &self.inner.precondition_violations
    }

    /// Returns how long the server asks to wait before another try.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.inner.retry_delay
    }

    /// Says whether the error has this reason.
    pub fn is(&self, reason: ErrorReason) -> bool {
        self.inner.reason == Some(reason)
    }

    /// Says whether another try may succeed without anything else being done: the server could not be reached or is
    /// going away, or it lost a race or is full and said when to come again.
    pub fn is_retryable(&self) -> bool {
        match self.inner.code {
            Code::Unavailable => true,
            Code::Aborted | Code::ResourceExhausted => self.inner.retry_delay.is_some(),
            Code::Unknown | Code::Cancelled | Code::Internal => self.inner.transport,
            Code::Ok
            | Code::InvalidArgument
            | Code::DeadlineExceeded
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::DataLoss
            | Code::Unauthenticated => false,
        }
    }

    pub(crate) fn local(code: Code, message: impl Into<String>) -> Self {
        Self::from(Status::new(code, message))
    }

    pub(crate) fn incomplete_answer(field: &str) -> Self {
        Self::local(
            Code::Internal,
            format!("the server's answer lacks {field:?}"),
        )
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let info = details
            .error_info()
            .filter(|info| info.domain == ERROR_DOMAIN);
        let reason_name = info.map(|info| info.reason.clone());
        let field_violations = details.bad_request().map_or_else(Vec::new, |bad_request| {
            let violations = bad_request.field_violations.iter();
            violations
                .map(|violation| FieldViolation {
                    field: violation.field.clone(),
                    description: violation.description.clone(),
                })
                .collect()
        });
        let precondition_violations =
            details
                .precondition_failure()
                .map_or_else(Vec::new, |failure| {
                    let violations = failure.violations.iter();
                    violations
                        .map(|violation| PreconditionViolation {
                            kind: violation.r#type.clone(),
                            subject: violation.subject.clone(),
                            description: violation.description.clone(),
                        })
                        .collect()
                });
        let inner = Inner {
            code: status.code(),
            message: status.message().to_owned(),
            reason: reason_name.as_deref().and_then(parse_wire_reason),
            reason_name,
            metadata: info.map_or_else(BTreeMap::new, |info| {
                info.metadata.clone().into_iter().collect()
            }),
            field_violations,
            precondition_violations,
            retry_delay: details.retry_info().and_then(|info| info.retry_delay),
            // A status that was read from the wire has no source; one that tonic made of a broken connection has.
            transport: StdError::source(&status).is_some(),
            source: Some(status),
        };
        Self {
            inner: Box::new(inner),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner.reason_name {
            Some(reason) => write!(formatter, "{} ({reason})", self.inner.message),
            None if self.inner.message.is_empty() => write!(formatter, "{}", self.inner.code),
            None => write!(formatter, "{}", self.inner.message),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // Not the status itself, whose text is ours already, but what it stands for.
        self.inner.source.as_ref().and_then(StdError::source)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn an_error_carries_reason_metadata_violations_and_delay() {
        let mut details = ErrorDetails::new();
        details.set_error_info(
            "LEASE_HELD",
            ERROR_DOMAIN,
            [("holder".to_owned(), "anna".to_owned())],
        );
        details.set_retry_info(Some(Duration::from_secs(7)));
        details.add_bad_request_violation("key.task_id", "is empty");
        details.add_precondition_failure_violation("UNREADABLE", "secret.txt", "cannot be read");
        let status =
            Status::with_error_details(Code::FailedPrecondition, "the lease is held", details);

        let error = Error::from(status);
        assert!(error.is(ErrorReason::LeaseHeld));
        assert_eq!(
            error.metadata().get("holder").map(String::as_str),
            Some("anna")
        );
        assert_eq!(error.retry_delay(), Some(Duration::from_secs(7)));
        assert_eq!(error.field_violations()[0].field, "key.task_id");
        assert_eq!(error.precondition_violations()[0].subject, "secret.txt");
        assert!(
            !error.is_retryable(),
            "somebody else's lease is for the caller to decide on"
        );
        assert_eq!(error.to_string(), "the lease is held (LEASE_HELD)");
    }

    #[test]
    fn an_unknown_reason_keeps_its_name_and_one_of_another_domain_counts_for_nothing() {
        let with = |domain: &str| {
            let details = ErrorDetails::with_error_info("FROM_THE_FUTURE", domain, []);
            Error::from(Status::with_error_details(Code::Aborted, "no", details))
        };
        assert_eq!(with(ERROR_DOMAIN).reason(), None);
        assert_eq!(with(ERROR_DOMAIN).reason_name(), Some("FROM_THE_FUTURE"));
        assert_eq!(with("elsewhere").reason_name(), None);
    }

    #[test]
    fn only_what_may_succeed_by_itself_is_retryable() {
        let plain = |code| Error::from(Status::new(code, ""));
        assert!(plain(Code::Unavailable).is_retryable());
        assert!(!plain(Code::Aborted).is_retryable());
        assert!(!plain(Code::Internal).is_retryable());
        assert!(!plain(Code::DeadlineExceeded).is_retryable());
        let busy = ErrorDetails::with_retry_info(Some(Duration::from_millis(1)));
        assert!(
            Error::from(Status::with_error_details(Code::Aborted, "busy", busy)).is_retryable()
        );
    }
}
