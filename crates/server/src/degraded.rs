//! Tells in the log when the store begins or ceases to refuse something.
//!
//! Engines say what they refuse when they are asked, so this asks once a second, for as long as the server runs.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Duration;

use auxo_core::engine::Outage;
use tokio::time::sleep;

use crate::app::App;

const LOOK: Duration = Duration::from_secs(1);

/// Runs until the server is gone, or it is aborted.
pub async fn watch(app: Weak<App>) {
    let mut known = Known::default();
    while let Some(app) = app.upgrade() {
        let health = app.service.health().err();
        let failure = health.map(|error| error.message().to_owned());
        for line in known.news(failure, app.service.outages()) {
            line.log();
        }
        drop(app);
        sleep(LOOK).await;
    }
}

/// What was told last.
#[derive(Default)]
struct Known {
    /// Why nothing works.
    failure: Option<String>,
    /// What is refused.
    parts: BTreeMap<String, String>,
}

/// A line for the log.
#[derive(Debug, PartialEq)]
enum Line {
    Trouble(String),
    Better(String),
}

impl Line {
    fn log(&self) {
        match self {
            Line::Trouble(text) => tracing::warn!("{text}"),
            Line::Better(text) => tracing::info!("{text}"),
        }
    }
}

impl Known {
    /// What to tell of how it is now. Another reason for the same is no news.
    fn news(&mut self, failure: Option<String>, outages: Vec<Outage>) -> Vec<Line> {
        let mut lines = Vec::new();
        match (&self.failure, &failure) {
            (None, Some(why)) => lines.push(Line::Trouble(format!("nothing works: {why}"))),
            (Some(_), None) => lines.push(Line::Better("the store works again".to_owned())),
            _ => {}
        }
        let parts: BTreeMap<String, String> = outages
            .into_iter()
            .map(|outage| (outage.part, outage.why))
            .collect();
        let begun = parts
            .iter()
            .filter(|(part, _)| !self.parts.contains_key(*part));
        lines.extend(
            begun.map(|(part, why)| Line::Trouble(format!("degraded: {part} refused: {why}"))),
        );
        // While nothing works, nothing is over.
        if failure.is_none() {
            let over = self.parts.keys().filter(|part| !parts.contains_key(*part));
            lines.extend(over.map(|part| Line::Better(format!("{part} served again"))));
            self.parts = parts;
        }
        self.failure = failure;
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage(part: &str, why: &str) -> Outage {
        Outage {
            part: part.to_owned(),
            why: why.to_owned(),
        }
    }

    #[test]
    fn each_outage_is_told_when_it_begins_and_when_it_is_over() {
        let trouble = |text: &str| Line::Trouble(text.to_owned());
        let better = |text: &str| Line::Better(text.to_owned());
        let mut known = Known::default();
        assert_eq!(known.news(None, vec![]), []);
        let lost = || vec![outage("shard 3", "no answer")];
        assert_eq!(
            known.news(None, lost()),
            [trouble("degraded: shard 3 refused: no answer")]
        );
        assert_eq!(known.news(None, vec![outage("shard 3", "refused")]), []);
        let all = known.news(Some("no redis".to_owned()), vec![]);
        assert_eq!(all, [trouble("nothing works: no redis")]);
        assert_eq!(known.news(None, lost()), [better("the store works again")]);
        assert_eq!(known.news(None, vec![]), [better("shard 3 served again")]);
    }
}
