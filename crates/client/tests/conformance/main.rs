//! The contract of an engine, kept through a server: the client, the wire and the routes together, over the model and over
//! the durable engine.

mod embedded;
mod model;
mod served;
