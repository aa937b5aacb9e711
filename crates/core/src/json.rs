//! The JSON forms of everything, in one place for HTTP and the command line.
//!
//! On the side of a server [`read`] turns requests into checked types and names the field that is wrong, and [`show`] turns
//! what is known into answers. On the side of a client [`mod@write`] makes the requests and [`parse`] reads the answers. None
//! knows the limits, which are the service's. Objects are read field by field rather than through derived structs: a derived reader
//! says "invalid type at column 17", and a person needs to hear which field it was and what would be right.
//!
//! Durations are `"30s"` or milliseconds, times RFC 3339 or Unix milliseconds, ids decimal strings. A field that is `null` is
//! a field that is not there; only a `payload` may be `null`, as that is JSON like any other.

mod content;
mod fields;
pub mod parse;
pub mod passage;
pub mod read;
pub mod show;
pub mod write;
