//! Numbers that scripts have names for are written out.
//!
//! Each local variable that a function of a script uses is looked for when the function is made, each time that the script runs: with
//! dozens of names that was a tenth of what a script with a single job cost. A number in the place of its name costs nothing.

use std::collections::HashMap;

/// The text with numbers in the place of their names, whose definitions are left empty: lines are counted as before.
pub(super) fn written_out(text: &str) -> String {
    let known: HashMap<&str, &str> = all(text).collect();
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        if defined(line).is_empty() {
            write_line(&mut out, line, &known);
        }
        out.push('\n');
    }
    out
}

/// All names of numbers that a text defines.
pub(super) fn all(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().flat_map(defined)
}

/// What a line like `local ONE, TWO = 1, 2` defines.
fn defined(line: &str) -> Vec<(&str, &str)> {
    let names_and_values = || line.strip_prefix("local ")?.split_once(" = ");
    let Some((names, values)) = names_and_values() else {
        return Vec::new();
    };
    let names: Vec<&str> = names.split(", ").collect();
    let values: Vec<&str> = values.split(", ").collect();
    let is_name = |name: &&str| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let is_number = |value: &&str| value.bytes().all(|b| b.is_ascii_digit());
    match names.len() == values.len() && names.iter().all(is_name) && values.iter().all(is_number) {
        true => names.into_iter().zip(values).collect(),
        false => Vec::new(),
    }
}

/// A line without its comment; what stands in quotes is left as it is.
fn write_line(out: &mut String, mut line: &str, known: &HashMap<&str, &str>) {
    while let Some(first) = line.chars().next() {
        if line.starts_with("--") {
            return;
        }
        let length = match first {
            '\'' | '"' => 2 + line[1..].find(first).unwrap_or(line.len() - 2),
            _ if is_word(first) => line.find(|c| !is_word(c)).unwrap_or(line.len()),
            _ => first.len_utf8(),
        };
        let (token, rest) = line.split_at(length);
        out.push_str(known.get(token).unwrap_or(&token));
        line = rest;
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_numbers_are_written_out_but_not_in_quotes_or_in_other_names() {
        let text = "local ONE, TWO = 1, 22\nlocal NAME = 'ONE'\nreturn ONE + TWO, 'TWO', TWO_MORE -- it's ONE\n";
        let out = "\nlocal NAME = 'ONE'\nreturn 1 + 22, 'TWO', TWO_MORE \n";
        assert_eq!(written_out(text), out);
    }

    #[test]
    fn what_is_no_number_is_defined_as_it_was() {
        for line in [
            "local ONE = one()",
            "local one = 1",
            "local ONE, TWO = 1",
            "  local ONE = 1",
        ] {
            assert_eq!(written_out(line), format!("{line}\n"));
        }
    }
}
