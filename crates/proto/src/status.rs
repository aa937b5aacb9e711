//! Errors of whole calls: our few stable codes as gRPC's, and back.

use auxo_core::{Code, Error, JobId};
use tonic::Status;
use tonic::metadata::MetadataValue;

use crate::value::word;

/// The name under which a status carries our own code.
pub const CODE: &str = "auxo-code";
/// The name under which a status carries the id of the job that it is about.
pub const JOB: &str = "auxo-job";

/// The code of gRPC that says most nearly the same. Several of ours share one, so [`CODE`] has our own.
pub fn grpc_code(code: Code) -> tonic::Code {
    match code {
        Code::BadRequest => tonic::Code::InvalidArgument,
        Code::NotFound => tonic::Code::NotFound,
        Code::DuplicateKey => tonic::Code::AlreadyExists,
        Code::LeaseLost | Code::QueuePaused | Code::Conflict => tonic::Code::FailedPrecondition,
        Code::QueueFull | Code::RateLimited => tonic::Code::ResourceExhausted,
        // Sending the same again will not help, so it is not the one that libraries try again after a while.
        Code::TooLarge => tonic::Code::OutOfRange,
        Code::Unauthorized => tonic::Code::Unauthenticated,
        Code::Forbidden => tonic::Code::PermissionDenied,
        Code::Unavailable => tonic::Code::Unavailable,
        // The one that says in gRPC, too, that the step may have been made.
        Code::UnknownOutcome => tonic::Code::DeadlineExceeded,
        Code::Internal => tonic::Code::Internal,
    }
}

/// An error as a status.
pub fn status_of(error: &Error) -> Status {
    let mut status = Status::new(grpc_code(error.code()), error.message());
    let told = status.metadata_mut();
    told.insert(CODE, MetadataValue::from_static(error.code().as_str()));
    if let Some(job) = error.job() {
        told.insert(JOB, job.0.into());
    }
    status
}

/// The error that a server of ours gave; `None` when the status is not from one.
pub fn error_of(status: &Status) -> Option<Error> {
    let text = |name| status.metadata().get(name).and_then(|v| v.to_str().ok());
    let code = word("code", text(CODE)?, &Code::ALL, Code::as_str).ok()?;
    let error = Error::new(code, status.message());
    Some(match text(JOB).and_then(|job| job.parse().ok()) {
        Some(job) => error.about(JobId(job)),
        None => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_comes_back_as_it_was() {
        for code in Code::ALL {
            let error = Error::new(code, "key \"ä\" is\ttaken");
            assert_eq!(error_of(&status_of(&error)), Some(error.clone()));
            let about = error.about(JobId(u64::MAX));
            assert_eq!(error_of(&status_of(&about)), Some(about));
        }
    }

    #[test]
    fn what_another_server_says_is_not_taken_for_ours() {
        assert_eq!(error_of(&Status::unavailable("a proxy")), None);
    }
}
