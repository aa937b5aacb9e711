//! The protocols that clients already speak, as bytes: requests are read out of a buffer, replies are written into one.
//!
//! Nothing here waits, opens or stores anything. A decoder takes whatever bytes there are, however they were cut, and keeps
//! what it knows of a request that is not complete; it never asks for more memory than its limits say. The words of a
//! protocol (tube, reserve, ACKJOB) stop at this crate: a listener maps a request to a call of the service.

pub mod beanstalk;
pub mod resp;
