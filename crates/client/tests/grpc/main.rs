//! The client over gRPC when things go wrong on the way, and how few messages it needs when they do not.

mod gathering;
mod road;
mod tokens;
mod trouble;
