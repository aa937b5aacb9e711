//! One bit per job record of a segment.

/// A growing list of bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits(Vec<u64>);

impl Bits {
    pub fn get(&self, at: u32) -> bool {
        self.0
            .get(at as usize / 64)
            .is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Sets the bit; answers whether it was clear.
    pub fn set(&mut self, at: u32) -> bool {
        let word = at as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let was = self.0[word] >> (at % 64) & 1;
        self.0[word] |= 1 << (at % 64);
        was == 0
    }

    /// Clears the bit; answers whether it was set.
    pub fn clear(&mut self, at: u32) -> bool {
        let Some(word) = self.0.get_mut(at as usize / 64) else {
            return false;
        };
        let was = *word >> (at % 64) & 1;
        *word &= !(1 << (at % 64));
        was == 1
    }

    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    pub fn words(&self) -> &[u64] {
        &self.0
    }

    pub fn from_words(words: Vec<u64>) -> Bits {
        Bits(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_says_whether_it_changed() {
        let mut bits = Bits::default();
        assert!(!bits.get(1000) && !bits.clear(1000));
        assert!(bits.set(1000) && !bits.set(1000));
        assert!(bits.get(1000) && !bits.get(999) && bits.count() == 1);
        assert!(bits.clear(1000) && !bits.clear(1000) && bits.count() == 0);
    }
}
