//! What the command line says about itself: completions and manual pages. Neither needs a data directory.

use tempfile::TempDir;

use crate::shell::bare;

#[test]
fn each_shell_gets_completions_that_know_the_verbs() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = bare(&["completions", shell]);
        assert_eq!(ran.code, 0, "{shell}: {}", ran.err);
        for word in ["push", "schedules", "max-attempts"] {
            assert!(ran.out.contains(word), "{shell} does not know {word}");
        }
    }
    let ran = bare(&["completions", "tcsh"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("bash"), "{}", ran.err);
}

#[test]
fn the_manual_is_a_page_on_stdout_or_a_page_for_each_verb_in_a_directory() {
    let ran = bare(&["man"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains(".TH auxo 1"), "{}", ran.out);

    let dir = TempDir::new().unwrap();
    let pages = dir.path().join("man1");
    let ran = bare(&["man", pages.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for (page, says) in [
        ("auxo.1", "auxo\\-push"),
        ("auxo-push.1", "max\\-attempts"),
        ("auxo-topics-publish.1", "routing\\-key"),
    ] {
        let path = pages.join(page);
        assert!(ran.out.contains(path.to_str().unwrap()), "{}", ran.out);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(says), "{page} does not say {says}: {text}");
    }
}

#[test]
fn a_place_where_no_page_can_be_written_is_named() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let ran = bare(&["man", file.to_str().unwrap()]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains(file.to_str().unwrap()), "{}", ran.err);
}
