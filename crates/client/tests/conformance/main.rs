//! The contract of an engine, kept through a server, over HTTP and over gRPC: the client, the wire and the routes together, over
//! the model, over the durable engine and over the one on Redis.

mod embedded;
mod model;
mod redis;
mod served;
