//! How far a walk through sorted sets has come, as a part of a cursor.

use auxo_core::{Error, Result};

use crate::link::{Call, Value};
use crate::record::garbled;
use crate::store::{bytes, items, text, tuple};

/// The job of a queue's part behind which a walk goes on; nothing of it at the beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behind {
    /// Its priority, where the part has several lines.
    pub class: String,
    pub score: String,
    pub id: Vec<u8>,
}

impl Behind {
    /// Where a script says to go on, if it does.
    pub fn next(said: Value) -> Result<Option<Behind>> {
        let said = items(said)?;
        if said.is_empty() {
            return Ok(None);
        }
        let [class, score, id] = tuple(Value::Array(said))?;
        Ok(Some(Behind {
            class: text(class)?,
            score: text(score)?,
            id: bytes(id)?.to_vec(),
        }))
    }

    /// Tells a script where to go on, in three arguments.
    pub fn tell(&self, call: &mut Call) {
        call.arg(self.class.as_str())
            .arg(self.score.as_str())
            .arg(self.id.clone());
    }

    /// Three parts of a cursor.
    pub fn write(&self) -> String {
        let id: String = self.id.iter().map(|b| format!("{b:02x}")).collect();
        format!("{},{},{id}", self.class, self.score)
    }

    /// Reads what [`Behind::write`] wrote.
    pub fn read<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Option<Behind> {
        let mut number = || {
            let text = parts.next()?;
            let good = text.is_empty() || text.parse::<f64>().is_ok_and(f64::is_finite);
            good.then(|| text.to_owned())
        };
        let (class, score) = (number()?, number()?);
        let id = parts.next()?;
        let hex = |at: usize| u8::from_str_radix(id.get(2 * at..2 * at + 2)?, 16).ok();
        let id = (0..id.len().div_ceil(2))
            .map(hex)
            .collect::<Option<Vec<u8>>>()?;
        matches!(id.len(), 0 | 8).then_some(Behind { class, score, id })
    }
}

/// A cursor that is somebody else's, or made up.
pub fn not_mine() -> Error {
    Error::bad_request("the cursor is not one of mine")
}

/// The score of a member as a script answers with it: nothing for a job that is in no set.
pub fn score(text: &[u8]) -> Result<Option<i64>> {
    if text.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(text).ok();
    let score = text.and_then(|text| text.parse::<f64>().ok());
    Ok(Some(score.ok_or_else(|| garbled("a score"))? as i64))
}
