//! JSON as clients of Auxo write it, right and wrong.

use arbitrary::Arbitrary;

/// Any JSON, made of names and values that are likely to mean something.
#[derive(Arbitrary, Debug)]
pub enum Doc {
    Null,
    Bool(bool),
    Whole(u64),
    Negative(i64),
    Fraction(f64),
    Text(Text),
    List(Vec<Doc>),
    Object(Vec<(Name, Doc)>),
    /// As it stands, be it JSON or not.
    Raw(String),
}

/// A text.
#[derive(Arbitrary, Debug)]
pub enum Text {
    Known(u8),
    Number(u64),
    Span(u64),
    Time(u64),
    Token(u64, u64, u64),
    Any(String),
}

/// The name of a field.
#[derive(Arbitrary, Debug)]
pub enum Name {
    Known(u8),
    Any(String),
}

const NAMES: &[&str] = &[
    "payload",
    "payload_base64",
    "payload_space",
    "kind",
    "headers",
    "priority",
    "run_at",
    "delay",
    "ttr",
    "ttl",
    "expires_at",
    "max_attempts",
    "backoff",
    "base",
    "factor",
    "cap",
    "jitter",
    "delays",
    "key",
    "on_duplicate",
    "key_window",
    "group",
    "retention",
    "token",
    "outcome",
    "error",
    "retry",
    "result",
    "result_base64",
    "progress",
    "progress_base64",
    "queues",
    "max",
    "wait",
    "worker",
    "job",
    "queue",
    "pattern",
    "routing_key",
    "cron",
    "every",
    "zone",
    "missed",
    "armed",
    "next",
    "last",
    "paused_in",
    "paused_out",
    "paused_until",
    "paused_for",
    "max_jobs",
    "max_bytes",
    "max_leased",
    "rate",
    "count",
    "per",
    "burst",
    "fair",
    "shards",
    "state",
    "search",
    "created_from",
    "created_before",
    "due_from",
    "due_before",
    "cursor",
    "limit",
    "action",
    "ids",
    "filter",
    "dry_run",
    "id",
    "version",
    "jobs",
    "store",
    "run",
    "step",
    "front",
    "due_clock",
    "expires_clock",
    "created_at",
    "attempt",
    "failures",
    "vanished",
    "last_error",
    "dead_reason",
    "ended_at",
    "lease",
    "deadline",
    "cancel",
    "timeline",
    "at",
    "event",
    "by",
    "note",
    "next_cursor",
    "results",
    "ok",
    "code",
    "message",
    "how",
    "moved",
    "reason",
    "text",
    "until",
    "since",
    "sequence",
    "name",
    "config",
    "counts",
    "bytes",
    "books",
    "waiting",
    "last_asked",
    "next_due",
    "rate_wait",
    "scheduled",
    "ready",
    "leased",
    "dead",
    "done",
    "accepted",
    "live",
    "expired",
    "cancelled",
    "deleted",
    "problems",
    "topic",
    "subscriptions",
    "schedules",
    "under_way",
    "leaving",
    "missed",
];

const TEXTS: &[&str] = &[
    "",
    "q",
    "mail.high",
    "exponential",
    "fixed",
    "list",
    "full",
    "none",
    "reject",
    "return",
    "replace",
    "ack",
    "fail",
    "release",
    "bury",
    "snooze",
    "kick",
    "cancel",
    "delete",
    "reschedule",
    "scheduled",
    "ready",
    "leased",
    "done",
    "dead",
    "cancelled",
    "dead,done",
    "skip",
    "once",
    "all",
    "steady",
    "wall",
    "look",
    "begin",
    "jobs",
    "end",
    "leave",
    "stay",
    "UTC",
    "Europe/Berlin",
    "*/5 * * * *",
    "@daily",
    "30s",
    "1h30m",
    "2030-01-31T09:00:00Z",
    "64KiB",
    "order.*.#",
    "aGVsbG8=",
    "aGVsbG8",
    "failed",
    "vanished",
    "buried",
    "expired",
    "pushed",
    "new",
    "existing",
    "replaced",
    "not_found",
    "lease_lost",
    "7",
    "D-00000000-AAAAAAAAAAEAAAAAAAAAAAAA-05a1",
];

impl Doc {
    /// The document as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        match self {
            Doc::Null => out.push_str("null"),
            Doc::Bool(value) => out.push_str(&value.to_string()),
            Doc::Whole(number) => out.push_str(&number.to_string()),
            Doc::Negative(number) => out.push_str(&number.to_string()),
            Doc::Fraction(number) => out.push_str(&format!("{number:e}")),
            Doc::Text(text) => out.push_str(&quoted(&text.text())),
            Doc::List(items) => {
                out.push('[');
                for (place, item) in items.iter().enumerate() {
                    out.push_str(if place > 0 { "," } else { "" });
                    item.write(out);
                }
                out.push(']');
            }
            Doc::Object(fields) => {
                out.push('{');
                for (place, (name, value)) in fields.iter().enumerate() {
                    out.push_str(if place > 0 { "," } else { "" });
                    out.push_str(&quoted(name.text()));
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
            Doc::Raw(text) => out.push_str(text),
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Name {
    fn text(&self) -> &str {
        match self {
            Name::Known(place) => NAMES[usize::from(*place) % NAMES.len()],
            Name::Any(text) => text,
        }
    }
}

impl Text {
    /// The text.
    pub fn text(&self) -> String {
        use auxo_core::{JobId, Timestamp, Token};
        match self {
            Text::Known(place) => TEXTS[usize::from(*place) % TEXTS.len()].to_owned(),
            Text::Number(number) => number.to_string(),
            Text::Span(ms) => auxo_core::text::duration(std::time::Duration::from_millis(*ms)),
            Text::Time(ms) => Timestamp(*ms).to_string(),
            Text::Token(job, counter, nonce) => Token {
                job: JobId(*job),
                counter: *counter,
                nonce: *nonce,
            }
            .to_string(),
            Text::Any(text) => text.clone(),
        }
    }
}
