//! A filter that knows most absent keys: 10 bits per key, 7 of them set, one absent key in a hundred passes.

use super::page::get_u64;

const BITS_PER_KEY: u64 = 10;
const PROBES: u64 = 7;

pub(super) struct Bloom(Box<[u64]>);

impl Bloom {
    pub fn new(hashes: impl ExactSizeIterator<Item = u64>) -> Bloom {
        let mut bloom = Bloom(vec![0; words(hashes.len() as u64) as usize].into());
        for hash in hashes {
            for (word, bit) in bloom.probes(hash) {
                bloom.0[word] |= bit;
            }
        }
        bloom
    }

    /// From the bytes as written, which are those of `len(keys)`.
    pub fn parse(bytes: &[u8]) -> Bloom {
        let words = bytes.chunks_exact(8);
        Bloom(words.map(|word| get_u64(word, 0)).collect())
    }

    /// How many bytes a filter for so many keys has.
    pub fn len(keys: u32) -> u64 {
        words(keys.into()) * 8
    }

    pub fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.iter().flat_map(|word| word.to_le_bytes())
    }

    pub fn may_contain(&self, hash: u64) -> bool {
        !self.0.is_empty() && self.probes(hash).all(|(word, bit)| self.0[word] & bit != 0)
    }

    pub fn memory(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// The hash is mixed again: nothing here depends on how well the caller did it.
    fn probes(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let bits = self.0.len() as u128 * 64;
        let first = mix(hash);
        let step = mix(first) | 1;
        (0..PROBES).map(move |probe| {
            let point = first.wrapping_add(probe.wrapping_mul(step));
            let bit = ((u128::from(point) * bits) >> 64) as u64;
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }
}

fn words(keys: u64) -> u64 {
    (keys * BITS_PER_KEY).div_ceil(64)
}

/// The finish of SplitMix64. Part of the file format.
fn mix(hash: u64) -> u64 {
    let x = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_passes_and_few_others_do() {
        // Poor hashes on purpose: multiples of a power of two.
        let bloom = Bloom::new((0..10_000_u32).map(|key| u64::from(key) << 20));
        assert!((0..10_000).all(|key| bloom.may_contain(key << 20)));
        let wrong = (10_000..110_000).filter(|key| bloom.may_contain(key << 20));
        let wrong = wrong.count();
        assert!((100..2000).contains(&wrong), "{wrong} of 100000 pass");
    }

    #[test]
    fn a_filter_survives_its_bytes() {
        let bloom = Bloom::new([1, 2, 3].into_iter());
        let bytes: Vec<u8> = bloom.bytes().collect();
        assert_eq!(bytes.len() as u64, Bloom::len(3));
        assert_eq!(Bloom::parse(&bytes).0, bloom.0);
    }

    #[test]
    fn an_empty_filter_contains_nothing() {
        assert!(!Bloom::new([].into_iter()).may_contain(0));
        assert_eq!(Bloom::len(0), 0);
    }
}
