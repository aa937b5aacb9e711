//! What ack, fail, release, bury and snooze have in common.

use auxo::Token;
use auxo::core::engine::{Outcome, Settle};
use auxo::core::json;
use serde::Serialize;

use super::context::{Context, Missing};
use super::failure::{self, Failure};

/// Ends each lease in the same way. One that is lost does not keep the others from being settled.
pub async fn settle(
    tokens: &[Token],
    outcome: Outcome,
    context: &mut Context,
) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    let item = |token: &Token| Settle {
        token: *token,
        outcome: outcome.clone(),
    };
    let answers = auxo
        .service()
        .settle(tokens.iter().map(item).collect())
        .await?;
    each(&answers, context, json::show::settled, |settled| {
        let due = settled.run_at.map(|at| format!(", due {at}"));
        format!(
            "{} {}{}",
            settled.id,
            settled.state,
            due.unwrap_or_default()
        )
    })
}

/// Prints the answers of a batch, one a line. Refusals go to stderr for people and to stdout for programs, which count lines.
pub fn each<T, S: Serialize>(
    answers: &[auxo::Result<T>],
    context: &mut Context,
    show: impl Fn(&T) -> S,
    line: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    let output = &mut context.output;
    for answer in answers {
        match answer {
            Ok(answer) if output.is_json() => {
                output.json(&serde_json::json!({ "ok": show(answer) }))?
            }
            Ok(answer) => output.line(line(answer))?,
            Err(error) if output.is_json() => {
                output.json(&serde_json::json!({ "error": json::show::error(error) }))?;
            }
            Err(error) => failure::say(error),
        }
    }
    if answers.iter().all(Result::is_ok) {
        Ok(())
    } else {
        Err(Failure::Said)
    }
}
