//! The server over gRPC, with the client that others use.

mod about;
mod bench;
mod bounds;
mod brittle;
mod calls;
mod refusals;
mod stop;
mod streams;
mod tokens;
mod work;
