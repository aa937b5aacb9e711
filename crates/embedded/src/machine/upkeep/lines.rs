//! An index file takes over from memory: what lines and maps know of a segment is let go of, or lined up from the file.

use super::super::{Machine, Step, classes};
use crate::index::Index;
use crate::record::Place;
use crate::segment::Finder;

impl Machine {
    /// The index file takes over from memory.
    pub(super) fn adopt_index(&mut self, number: u32, index: Index) -> Step<()> {
        if self.log.adopt(number, index) {
            self.detach(&[number]);
            self.attach_lines(number, None)?;
        }
        Ok(())
    }

    /// Forgets what the streams and maps know about the records of these segments, which are in order. All in one go: it
    /// passes by every line there is.
    pub(super) fn detach(&mut self, numbers: &[u32]) {
        let stays = |place: &Place| numbers.binary_search(&place.segment).is_err();
        for queue in self.queues.iter_mut() {
            for lane in queue.lanes.values_mut() {
                for line in lane.lines_mut() {
                    line.steady.retain(stays);
                    line.wall.retain(stays);
                }
            }
        }
        self.expiry
            .iter_mut()
            .chain([&mut self.keep])
            .for_each(|stream| stream.retain(stays));
        self.recent_dead.retain(|_, place| stays(place));
        self.recent_done.retain(|_, place| stays(place));
        self.recent_keys.retain(|_, places| {
            places.retain(stays);
            !places.is_empty()
        });
    }

    /// Lines up what a segment's index file has, for all queues or for one.
    pub(in crate::machine) fn attach_lines(&mut self, number: u32, only: Option<u32>) -> Step<()> {
        let Finder::File(index) = &self.log.segment(number).finder else {
            return Ok(());
        };
        let streams: Vec<_> = match only {
            None => index.streams().collect(),
            Some(queue) => {
                let from = crate::index::StreamKey {
                    queue,
                    ..Default::default()
                };
                index
                    .streams_from(&from)
                    .take_while(|(key, _)| key.queue == queue)
                    .collect()
            }
        };
        for (key, range) in streams {
            let base = classes::base(key.class);
            let Machine {
                queues,
                expiry,
                keep,
                log,
                ..
            } = self;
            match key.class & !1 {
                classes::EXPIRY => expiry[base as usize].attach(log, number, range)?,
                classes::KEEP => keep.attach(log, number, range)?,
                class @ (classes::LINE | classes::TURN) => {
                    // Of a forgotten queue no record is current.
                    let Some(queue) = queues.get_mut(key.queue) else {
                        continue;
                    };
                    let fair = queue.config.fair;
                    // A fair queue goes by its groups; the others by the one line of all.
                    let group = match (class, fair) {
                        (classes::LINE, false) => 0,
                        (classes::LINE, true) if key.group == 0 => 0,
                        (classes::TURN, true) => key.group,
                        _ => continue,
                    };
                    let line = queue.lanes.line(key.priority, group, fair);
                    line.stream(base).attach(log, number, range)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
