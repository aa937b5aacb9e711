//! Shows a place in a file.

use std::ops::Range;
use std::path::Path;

/// An error, the line it is about, and carets below what is wrong.
pub fn snippet(path: &Path, text: &str, at: Range<usize>, message: &str) -> String {
    let start = text.floor_char_boundary(at.start.min(text.len()));
    let end = text.floor_char_boundary(at.end.clamp(start, text.len()));
    let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
    let number = text[..start].matches('\n').count() + 1;
    let before = text[line_start..start].chars().count();
    // A value over several lines is marked on its first.
    let width = text[start..end.min(line_end)].chars().count().max(1);
    let gutter = " ".repeat(number.to_string().len());
    let line = text[line_start..line_end].replace('\t', " ");
    let line = line.trim_end();
    format!(
        "error: {message}\n{gutter}--> {}:{number}:{}\n{gutter} |\n{number} | {line}\n{gutter} | {}{}\n",
        path.display(),
        before + 1,
        " ".repeat(before),
        "^".repeat(width),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_shown_with_carets_below_what_is_wrong() {
        let text = "data = \"x\"\nsync = \"allways\"\n";
        let shown = snippet(Path::new("auxo.toml"), text, 18..27, "sync: no");
        let expected = "\
error: sync: no
 --> auxo.toml:2:8
  |
2 | sync = \"allways\"
  |        ^^^^^^^^^
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_place_at_the_end_or_outside_is_shown_too() {
        for at in [5..5, 9..20] {
            let shown = snippet(Path::new("f"), "a = ä", at, "no");
            assert!(shown.contains("1 | a = ä\n"), "{shown}");
            assert!(shown.ends_with("^\n"), "{shown}");
        }
        assert!(snippet(Path::new("f"), "", 0..0, "no").ends_with("^\n"));
    }
}
