//! One handle to a job queue, wherever it lives.
//!
//! ```
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
//! # let engine = std::sync::Arc::new(auxo_conformance::ModelEngine::new(auxo_core::ManualClock::at(0)));
//! let auxo = Auxo::with_engine(engine);
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
//! [`Auxo`] is cheap to clone and can be used from many tasks at once. [`Queue`] pushes, [`Request`] asks for jobs and gets
//! [`Lease`]s, [`Topic`] fans out. What they do not offer is one step away: [`Auxo::service`] is the whole queue.

#[cfg(feature = "embedded")]
mod builder;
mod draft;
mod handle;
mod lease;
mod payload;
mod queue;
mod topic;

#[cfg(feature = "embedded")]
pub use builder::Builder;
pub use draft::{Draft, Plan};
pub use handle::Auxo;
pub use lease::{Lease, Request};
pub use queue::Queue;
pub use topic::Topic;
