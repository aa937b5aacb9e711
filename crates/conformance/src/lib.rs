//! What every engine must pass: the suite, the model and the history checker. For tests only.

pub mod bench;
pub mod broken;
pub mod checker;
pub mod history;
pub mod model;
pub mod queue_limit;
pub mod random;
pub mod rate;
pub mod rounds;
pub mod several;
pub mod suite;
pub mod witness;
pub mod workload;

pub use bench::Bench;
pub use model::{Mint, Model, ModelEngine};
