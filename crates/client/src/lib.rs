//! One handle to a job queue, wherever it lives.
//!
#![cfg_attr(feature = "embedded", doc = "```")]
#![cfg_attr(not(feature = "embedded"), doc = "```ignore")]
//! use std::time::Duration;
//! use auxo_client::Auxo;
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Email {
//!     to: String,
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> auxo_core::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path();
//! let auxo = Auxo::open(path).await?;
//! auxo.queue("mail")?.push(&Email { to: "ada@example.org".into() }).await?;
//!
//! let lease = auxo.lease(["mail"]).wait(Duration::from_secs(5)).one().await?.expect("a job");
//! let email: Email = lease.payload()?;
//! assert_eq!(email.to, "ada@example.org");
//! lease.ack().await?;
//! auxo.close().await
//! # }
//! ```
//!
//! `Auxo::open` is a local directory, `Auxo::connect` a server or a Redis; what follows is the same.
//!
//! [`Auxo`] is cheap to clone and can be used from many tasks at once. [`Queue`] pushes, [`Request`] asks for jobs and gets
//! [`Lease`]s, [`Topic`] fans out. What they do not offer is one step away: [`Auxo::service`] is the whole queue.

#[cfg(feature = "embedded")]
mod builder;
#[cfg(any(feature = "http", feature = "redis"))]
mod connect;
mod draft;
#[cfg(feature = "grpc")]
mod grpc;
mod handle;
mod lease;
mod payload;
mod queue;
#[cfg(feature = "http")]
mod remote;
mod topic;

#[cfg(feature = "embedded")]
pub use builder::Builder;
#[cfg(any(feature = "http", feature = "redis"))]
pub use connect::Connector;
pub use draft::{Draft, Plan};
#[cfg(feature = "grpc")]
pub use grpc::GrpcRemote;
pub use handle::Auxo;
pub use lease::{Lease, Request};
pub use queue::Queue;
#[cfg(feature = "http")]
pub use remote::Remote;
pub use topic::Topic;
