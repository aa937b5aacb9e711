//! Random numbers: the system's for real, a seed's for tests.

/// How many numbers the system is asked for at once.
const BLOCK: usize = 64;

/// A source of random numbers.
pub struct Dice(Source);

enum Source {
    /// A block of the system's randomness and how much of it is used.
    System(Box<[u64; BLOCK]>, usize),
    Seeded(u64),
}

impl Dice {
    /// The operating system's.
    pub fn system() -> Dice {
        Dice(Source::System(Box::new([0; BLOCK]), BLOCK))
    }

    /// The same numbers for the same seed.
    pub fn seeded(seed: u64) -> Dice {
        Dice(Source::Seeded(seed))
    }

    pub fn roll(&mut self) -> u64 {
        match &mut self.0 {
            Source::System(block, used) => {
                if *used == block.len() {
                    // One question for all of them: each is a system call.
                    let mut bytes = [0; 8 * BLOCK];
                    getrandom::fill(&mut bytes).expect(
                        "the system has no randomness, without which tokens could be guessed",
                    );
                    for (number, bytes) in block.iter_mut().zip(bytes.as_chunks().0) {
                        *number = u64::from_le_bytes(*bytes);
                    }
                    *used = 0;
                }
                *used += 1;
                block[*used - 1]
            }
            // splitmix64
            Source::Seeded(state) => {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = *state;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                z ^ (z >> 31)
            }
        }
    }
}
