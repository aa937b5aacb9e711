//! The contract of an engine, kept on a single Redis.

mod store;

use store::make;

auxo_conformance::suite!(make, restarts);
