//! The contract of an engine, kept on a single Redis.

use crate::store::make;

auxo_conformance::suite!(make, restarts, together, direct);
