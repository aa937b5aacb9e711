//! What goes to stdout: tables and blocks for people, JSON lines for programs.
//!
//! A table is as wide as the terminal or as COLUMNS says, or else as wide as it likes. Text that came from a job is
//! printed without control characters: a payload must not be able to drive somebody's terminal.

use std::fmt::{Display, Write as _};
use std::io::{self, BufWriter, Stdout, Write};
use std::time::{Duration, SystemTime};

use auxo::Timestamp;
use auxo::core::text;
use auxo::core::time::millis;
use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, Width, presets};
use serde::Serialize;

use super::failure::Failure;

/// The results of a command.
pub struct Output {
    json: bool,
    stdout: BufWriter<Stdout>,
}

impl Output {
    pub fn new(json: bool) -> Output {
        Output {
            json,
            stdout: BufWriter::new(io::stdout()),
        }
    }

    /// Whether the reader is a program.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// One line.
    pub fn line(&mut self, text: impl Display) -> Result<(), Failure> {
        Ok(writeln!(self.stdout, "{text}")?)
    }

    /// One line of JSON.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.stdout, value).map_err(io::Error::from)?;
        self.line("")
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.stdout.write_all(bytes)?)
    }

    /// Names and values below each other; values that are empty are left out.
    pub fn block(&mut self, fields: &[(&str, String)]) -> Result<(), Failure> {
        let shown = fields.iter().filter(|(_, value)| !value.is_empty());
        let width = shown.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in shown {
            writeln!(self.stdout, "{name:width$}  {value}")?;
        }
        Ok(())
    }

    /// A table. On a narrow terminal its first `whole` columns are not cut.
    pub fn table<const N: usize>(
        &mut self,
        whole: usize,
        header: [&'static str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Result<(), Failure> {
        self.part(&mut Parts::new(whole, header), rows)
    }

    /// The next rows of a table that is too long to be held as a whole. The first part has the header.
    pub fn part<const N: usize>(
        &mut self,
        parts: &mut Parts<N>,
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Result<(), Failure> {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_truncation_indicator("…")
            // What is too long is cut where the column ends, not before a word: there is no such character.
            .set_delimiter('\0');
        if let Some(header) = parts.header.take() {
            table.set_header(header);
        }
        for cells in rows {
            let mut row = Row::from(cells);
            row.max_height(1);
            table.add_row(row);
        }
        if let Some(columns) = columns() {
            table.set_width(columns);
        }
        let widths = parts.fit(table.column_max_content_widths(), table.width());
        for (column, width) in table.column_iter_mut().zip(widths) {
            column.set_padding((0, GAP));
            let padded = Width::Fixed(width.saturating_add(GAP));
            column.set_constraint(ColumnConstraint::Absolute(padded));
        }
        for line in table.lines() {
            writeln!(self.stdout, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Writes out what is buffered.
    pub fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.stdout.flush()?)
    }
}

/// The space between columns.
const GAP: u16 = 2;

/// A column that is cut keeps this much.
const LEAST: u16 = 5;

/// How wide a table may be, if somebody says.
fn columns() -> Option<u16> {
    let said = std::env::var("COLUMNS").ok()?;
    said.parse().ok().filter(|columns| *columns > 0)
}

/// How far a table that is printed in parts has come.
pub struct Parts<const N: usize> {
    whole: usize,
    header: Option<[&'static str; N]>,
    widths: [u16; N],
}

impl<const N: usize> Parts<N> {
    /// On a narrow terminal the first `whole` columns are not cut.
    pub fn new(whole: usize, header: [&'static str; N]) -> Parts<N> {
        Parts {
            whole,
            header: Some(header),
            widths: [0; N],
        }
    }

    /// Columns that are at least so wide from the beginning, for rows that come one by one.
    pub fn at_least(self, widths: [u16; N]) -> Parts<N> {
        Parts { widths, ..self }
    }

    /// The widths of this part's columns: at least those of the parts before, so that they stand below each other, and cut
    /// where they are widest if all are too wide together.
    fn fit(&mut self, wanted: Vec<u16>, most: Option<u16>) -> [u16; N] {
        for (width, wanted) in self.widths.iter_mut().zip(wanted) {
            *width = wanted.max(*width);
        }
        let mut widths = self.widths;
        let most = most.map_or(usize::MAX, usize::from);
        let total = |widths: &[u16; N]| -> usize {
            let padded: usize = widths.iter().map(|w| usize::from(*w + GAP)).sum();
            // Nothing stands behind the last one.
            padded - usize::from(GAP)
        };
        while total(&widths) > most {
            let widest = widths.iter_mut().skip(self.whole).max_by_key(|w| **w);
            match widest.filter(|width| **width > LEAST) {
                Some(width) => *width -= 1,
                None => break,
            }
        }
        widths
    }
}

/// Text of a stranger on one line: control characters are spelled out, and what is over `most` characters is cut.
pub fn clean(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (count, char) in text.chars().enumerate() {
        if count == most {
            shown.push('…');
            break;
        }
        if text::is_deceptive(char) {
            let _ = write!(shown, "{}", char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}

/// Bytes as text if they are, or else how many there are.
pub fn content(bytes: &[u8], most: usize) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => clean(text, most),
        Err(_) => format!("<{} bytes>", bytes.len()),
    }
}

/// How far away an instant is, such as `in 5m` or `3s ago`.
pub fn distance(at: Timestamp) -> String {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(Timestamp(0), |since| Timestamp(millis(since)));
    if at > now {
        format!("in {}", coarse(at.since(now)))
    } else {
        format!("{} ago", coarse(now.since(at)))
    }
}

/// A duration as people say it: two units at most.
fn coarse(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let unit = match seconds {
        0..3600 => 1,
        3600..86_400 => 60,
        _ => 3600,
    };
    text::duration(Duration::from_secs(seconds / unit * unit))
}

/// An instant and how far away it is.
pub fn instant(at: Timestamp) -> String {
    format!("{at} ({})", distance(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_cannot_drive_the_terminal() {
        assert_eq!(
            clean("a\x1b[31m\nb\u{202e}", 80),
            "a\\u{1b}[31m\\nb\\u{202e}"
        );
        assert_eq!(content(b"\xff\xfe", 80), "<2 bytes>");
        assert_eq!(clean("äöü", 2), "äö…");
    }

    #[test]
    fn later_rows_stand_below_earlier_ones_and_the_widest_column_is_cut() {
        let mut parts = Parts::new(1, ["ID", "QUEUE", "ABOUT"]).at_least([4, 0, 0]);
        assert_eq!(parts.fit(vec![2, 5, 30], None), [4, 5, 30]);
        assert_eq!(parts.fit(vec![2, 9, 3], None), [4, 9, 30]);
        assert_eq!(parts.fit(vec![2, 1, 1], Some(30)), [4, 9, 13]);
        // Too narrow for anything: it is cut as far as it goes, and no further.
        assert_eq!(parts.fit(vec![2, 1, 1], Some(5)), [4, 5, 5]);
    }

    #[test]
    fn far_times_are_told_coarsely() {
        let told = [59, 3599, 3661, 90_061].map(|s| coarse(Duration::from_secs(s)));
        assert_eq!(told, ["59s", "59m59s", "1h1m", "1d1h"]);
    }
}
