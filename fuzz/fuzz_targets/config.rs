//! The settings file and the URL of a store: any text.

#![no_main]

use std::path::Path;

use auxo_fuzz::files::config::{file, snippet::snippet};
use auxo_fuzz::files::redis::url::StoreUrl;
use auxo_fuzz::{refusal, room};
use libfuzzer_sys::fuzz_target;

fn settings(text: &str) {
    let read = room::within(2000 * text.len() + (1 << 20), || file::read(text));
    match read {
        Ok(entries) => {
            for (place, entry) in entries.iter().enumerate() {
                assert!(text.get(entry.at.clone()).is_some(), "{entry:?}");
                assert!(entries[..place].iter().all(|other| other.key != entry.key));
            }
        }
        Err(wrong) => {
            let shown = snippet(Path::new("auxo.toml"), text, wrong.at, &wrong.message);
            assert!(
                shown.starts_with("error: ") && shown.ends_with("^\n"),
                "{shown}"
            );
        }
    }
}

fn url(text: &str) {
    match text.parse::<StoreUrl>() {
        // It is shown without passwords, so what is shown says less; but it is a URL.
        Ok(url) => assert!(url.to_string().parse::<StoreUrl>().is_ok(), "{url}"),
        Err(error) => refusal::check(&error),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    settings(&text);
    url(text.lines().next().unwrap_or_default());
});
