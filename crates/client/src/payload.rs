//! Typed payloads are JSON, so that every language, the command line and the console can read them.

use auxo_core::{Error, Job, Result};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Bytes> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(|error| Error::bad_request(format!("payload cannot be written as JSON: {error}")))
}

pub(crate) fn decode<T: DeserializeOwned>(job: &Job) -> Result<T> {
    serde_json::from_slice(&job.payload).map_err(|error| {
        Error::bad_request(format!("payload is not what was expected: {error}")).about(job.id)
    })
}
