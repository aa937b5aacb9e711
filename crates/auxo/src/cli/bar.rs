//! How far a long command is, for who looks at a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of so many, or without a known end a sign of life. Nothing where stderr is no terminal.
pub fn bar(size: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match size {
        Some(size) => (
            ProgressBar::new(size),
            "{bar:30} {percent:>3}% {wide_msg} {eta}",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {elapsed} {wide_msg}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
