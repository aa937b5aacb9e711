//! The server over real sockets.

mod auth;
mod bench;
mod connections;
mod docs;
mod events;
mod garbled;
mod http2;
mod jobs;
mod limits;
mod names;
mod numbers;
mod panics;
mod passage;
mod patience;
mod push;
mod queues;
mod setup;
mod shapes;
mod slow;
mod stop;
mod strange;
mod strangers;
mod tls;
mod work;
