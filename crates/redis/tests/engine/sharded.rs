//! The contract of an engine, kept by a store of several shards.

use crate::store::make_sharded;

auxo_conformance::suite!(make_sharded, restarts);
