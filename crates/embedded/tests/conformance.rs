//! The contract of an engine, kept by the embedded one, through restarts as well.

mod store;

use store::make;

auxo_conformance::suite!(make, restarts, steady, together, direct);
