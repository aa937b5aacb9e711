//! Auxo over HTTP and gRPC.
//!
//! [`Server`] listens on an address and answers for a [`Service`](auxo_core::Service), the same one that an embedded program
//! calls; it adds no rule of its own about jobs. From the socket up: `server` accepts and drains, `guard` ends connections
//! that only cost, `observe` sees every request, `auth` knows who may make it, `routes` has one file per family of calls, and so
//! has `grpc`; both make them by way of `calls`, which knows what each of them needs. Everything that can be called over HTTP is in [`document`], because a route and its entry there are one
//! registration.

mod answers;
mod app;
mod auth;
mod beanstalk;
mod calls;
mod clock;
mod degraded;
mod document;
mod events;
mod extract;
mod garbled;
mod grpc;
mod guard;
mod hosts;
mod lanes;
mod large;
mod line;
mod listen;
mod metrics;
mod names;
mod observe;
mod owner;
mod problem;
mod queue_shares;
mod resp;
mod routes;
mod schema;
mod server;
mod settings;
mod subject;
mod tls;
mod trail;
mod watch;

pub use auth::{Auth, Denied, Grant, Identity, Patience, Right, Secret, Token, TokenFile, Tokens};
pub use document::document;
pub use hosts::is_name as is_host_name;
pub use listen::Listener;
pub use server::{Files, Server};
pub use settings::{About, Settings};
pub use tls::{Tls, TlsFiles};
pub use trail::{Move, Noted, Trail, Who};
