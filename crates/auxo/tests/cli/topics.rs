//! Topics and schedules.

use crate::shell::Shell;

both! {
    publishing_reaches_each_subscription_whose_pattern_fits,
    a_schedule_is_kept_shown_and_removed,
    a_wrong_schedule_is_refused_with_its_reason,
}

fn publishing_reaches_each_subscription_whose_pattern_fits(shell: &Shell) {
    shell.ok(&["topics", "subscribe", "orders", "audit", "audit"]);
    shell.ok(&[
        "topics",
        "subscribe",
        "orders",
        "ship",
        "shipping",
        "--pattern",
        "order.*.paid",
    ]);
    assert_eq!(shell.json(&["topics", "list"]).len(), 2);
    assert!(shell.ok(&["topics", "list"]).contains("order.*.paid"));

    let publish = |key: &str| {
        let args = ["topics", "publish", "orders", "{}", "--routing-key", key];
        shell.ok(&args).lines().count()
    };
    assert_eq!(publish("order.7.created"), 1);
    assert_eq!(publish("order.7.paid"), 2);
    let removed = shell.json(&["topics", "unsubscribe", "orders", "audit"]);
    assert_eq!(removed[0]["removed"], true);
    assert_eq!(publish("order.7.created"), 0);
    assert_eq!(shell.json(&["jobs", "--all"]).len(), 3);
}

fn a_schedule_is_kept_shown_and_removed(shell: &Shell) {
    shell.ok(&[
        "schedules",
        "set",
        "nightly",
        "reports",
        "--cron",
        "30 2 * * *",
        "--zone",
        "Europe/Berlin",
        "{\"all\":true}",
    ]);
    shell.ok(&[
        "schedules",
        "set",
        "pulse",
        "health",
        "--every",
        "1h",
        "--missed",
        "skip",
    ]);
    let schedules = shell.json(&["schedules", "list"]);
    assert_eq!(schedules.len(), 2);
    assert_eq!(schedules[0]["zone"], "Europe/Berlin");
    assert!(schedules[0]["next"].is_string(), "{schedules:?}");
    assert!(shell.ok(&["schedules", "list"]).contains("every 1h"));
    assert_eq!(
        shell.json(&["schedules", "delete", "pulse"])[0]["name"],
        "pulse"
    );
    assert_eq!(shell.json(&["schedules", "list"]).len(), 1);
}

fn a_wrong_schedule_is_refused_with_its_reason(shell: &Shell) {
    let set = |rhythm: &[&str]| shell.run(&[&["schedules", "set", "s", "q"], rhythm].concat());
    for (rhythm, says) in [
        (&["--cron", "61 * * * *"][..], "cron expression"),
        (&["--cron", "@daily", "--zone", "Mars/Olympus"], "time zone"),
        (&["--every", "0s"], "every"),
    ] {
        let ran = set(rhythm);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.err.contains(says), "{}", ran.err);
        assert!(ran.err.contains("code: bad_request"), "{}", ran.err);
    }
    assert!(shell.json(&["schedules", "list"]).is_empty());
}
