//! How the settings of a queue are packed, with how it is spread; `part_queues.lua` reads the same.

use auxo_core::When;
use auxo_core::queue::{QueueConfig, Rate};

use crate::bytes::{Pack, Unpack};
use crate::spread::{Shares, Spread};

/// What a shard knows of a queue.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub config: QueueConfig,
    pub spread: Spread,
    pub shares: Shares,
}

impl Settings {
    pub fn pack(&self) -> Vec<u8> {
        let config = &self.config;
        let flags = [
            config.paused_in,
            config.paused_out,
            config.fair,
            config.max_jobs.is_some(),
            config.max_bytes.is_some(),
            config.max_leased.is_some(),
            config.rate.is_some(),
            self.spread.epoch > 0,
        ];
        let bits = flags.iter().enumerate().map(|(i, is)| u8::from(*is) << i);
        let mut pack = Pack::default();
        pack.u8(bits.sum());
        if let Some(jobs) = config.max_jobs {
            pack.u64(jobs);
        }
        if let Some(size) = config.max_bytes {
            pack.u64(size);
        }
        if let Some(leased) = config.max_leased {
            pack.u32(leased);
        }
        if let Some(rate) = config.rate {
            pack.u32(rate.count).span(rate.per).u32(rate.burst);
        }
        if self.spread.epoch > 0 {
            self.spread.write(&mut pack);
            self.shares.write(&mut pack);
        }
        // Behind everything: that there is more says that it is there.
        if let Some(until) = config.resumes_at() {
            pack.time(until);
        }
        pack.0
    }

    pub fn unpack(bytes: &[u8]) -> Option<Settings> {
        if bytes.is_empty() {
            return Some(Settings::default());
        }
        let mut unpack = Unpack(bytes);
        let flags = unpack.u8()?;
        let has = |bit: u8| flags & 1 << bit != 0;
        let mut config = QueueConfig {
            paused_in: has(0),
            paused_out: has(1),
            fair: has(2),
            max_jobs: if has(3) { Some(unpack.u64()?) } else { None },
            max_bytes: if has(4) { Some(unpack.u64()?) } else { None },
            max_leased: if has(5) { Some(unpack.u32()?) } else { None },
            rate: match has(6) {
                true => Some(Rate {
                    count: unpack.u32()?,
                    per: unpack.span()?,
                    burst: unpack.u32()?,
                }),
                false => None,
            },
            shards: None,
            paused_until: None,
        };
        let (mut spread, mut shares) = Default::default();
        if has(7) {
            spread = Spread::read(&mut unpack, config.max_leased.is_some())?;
            shares = Shares::read(&mut unpack)?;
        }
        if !unpack.0.is_empty() {
            config.paused_until = Some(When::At(unpack.time()?));
        }
        config.shards = (spread.count > 1).then_some(spread.count);
        Some(Settings {
            config,
            spread,
            shares,
        })
    }
}
