//! What callers do, whatever they speak: each call with the right that it needs and, where it is an operator's move, with its two
//! lines in the audit log.
//!
//! Protocols read a request, call this, and show the answer. So a right means the same over each of them, and what one of them
//! hides the others hide as well: a job, a lease or a schedule in a queue that is not the caller's is answered like one that
//! is not there.

pub mod jobs;
pub mod leases;
pub mod queues;
pub mod schedules;
pub mod stores;
pub mod topics;
