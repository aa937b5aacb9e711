//! How much memory there is.
//!
//! libFuzzer weighs the process about once a second, and its own part with it, and what is asked for but never touched weighs
//! nothing. So the allocator counts as well: whoever asks for more than there is room for is ended on the spot, and the input
//! that made it do so is the one that is kept.

use std::alloc::System;

use cap::Cap;

/// The most that all of a run may take.
const MOST: usize = 256 << 20;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, MOST);

/// Does something that may take only so many bytes beside what is taken already.
pub fn within<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let limit = (MEMORY.allocated() + bytes).min(MOST);
    MEMORY
        .set_limit(limit)
        .expect("a limit above what is taken");
    let done = work();
    MEMORY.set_limit(MOST).expect("the highest limit");
    done
}
