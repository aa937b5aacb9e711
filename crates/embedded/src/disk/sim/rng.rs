//! Dice that fall the same way for the same seed.

/// SplitMix64: small, quick, and good enough to choose faults.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Dice that begin at `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits. Not an iterator: it never ends.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `end`, or 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }
}

/// How one write fares in a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Whole,
    Torn,
    Lost,
}

/// Decides what survives a power cut.
pub(super) struct Survival {
    rng: Rng,
    /// Of eight, how many survive.
    kept: u64,
}

impl Survival {
    /// One inclination for the whole crash, so that "nearly all" and "nearly nothing" come up too, not only "half".
    pub fn by_seed(seed: u64) -> Survival {
        let mut rng = Rng::new(seed);
        let kept = [0, 1, 4, 7, 8][rng.below(5) as usize];
        Survival { rng, kept }
    }

    pub fn none() -> Survival {
        let rng = Rng::new(0);
        Survival { rng, kept: 0 }
    }

    pub fn survives(&mut self) -> bool {
        self.rng.below(8) < self.kept
    }

    pub fn fate(&mut self) -> Fate {
        // A crash that keeps all, or nothing, tears nothing.
        let torn = (1..8).contains(&self.kept) && self.rng.below(3) == 0;
        match (torn, self.survives()) {
            (true, _) => Fate::Torn,
            (false, true) => Fate::Whole,
            (false, false) => Fate::Lost,
        }
    }
}
