//! An index that is damaged or cannot be read is made anew from its segment: everything it says is in the log.

use super::Log;
use crate::damage::Trouble;
use crate::index::{Index, Pages};
use crate::sealed::Sealed;
use crate::segment::{Finder, log_name, parse_name};

impl Log {
    /// Asks a segment's index, and once more if it had to be mended.
    pub(super) fn ask<T>(
        &mut self,
        segment: u32,
        question: impl Fn(&Index, &mut Pages) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        loop {
            let Some(Finder::File(index)) =
                self.segments.get(&segment).map(|segment| &segment.finder)
            else {
                let what = "the segment has no index";
                return Err(Trouble::damaged(log_name(segment), 0, what));
            };
            match question(index, &mut self.pages) {
                Err(trouble) => self.mend(trouble)?,
                answer => return answer,
            }
        }
    }

    /// Lets `read` use positions in indexes, and once more from the start if one was mended meanwhile: entries may have
    /// moved to later positions by that.
    pub fn unmoved<T>(
        &mut self,
        mut read: impl FnMut(&mut Log) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        loop {
            let before = self.mends;
            let answer = read(self)?;
            if self.mends == before {
                return Ok(answer);
            }
        }
    }

    /// Makes the index anew that the trouble is about. Trouble with anything else stays what it is, and so does that with
    /// an index which is in memory already.
    #[cold]
    pub(super) fn mend(&mut self, trouble: Trouble) -> Result<(), Trouble> {
        let number = parse_name(trouble.file(), "idx");
        let Some(segment) = number.and_then(|number| self.segments.get_mut(&number)) else {
            return Err(trouble);
        };
        let Finder::File(damaged) = &segment.finder else {
            return Err(trouble);
        };
        let index = Sealed::of(segment).stand_in(damaged)?;
        let number = segment.number;
        self.adopt(number, index);
        self.mended.push(number);
        self.mends += 1;
        Ok(())
    }
}
