//! Long batches go to Redis in parts.
//!
//! While a script runs, Redis answers nobody else. So no script is given more than it can do in about a millisecond and a half
//! ([`BUDGET`]): a batch call promises one step per job, not one for all of them. The parts of a call follow each other, so that jobs
//! that are pushed together keep their order. What a job costs is only partly known here: a script that finds more to do than was
//! expected (the queue is fair or has limits, a lease ends with a key to free) stops when it has spent its budget, and leaves the
//! rest for the next part.

use std::collections::VecDeque;
use std::time::Duration;

use auxo_core::{Code, Error, Result};
use tokio::time::Instant;

/// What one script may cost, in units of about a microsecond. `part_moves.lua` has the same number.
pub const BUDGET: usize = 1500;
/// How many bytes are written or read in one unit.
const BYTES: usize = 500;

/// What so many bytes of a payload, a result or a note add to the cost of an item.
pub fn bytes(count: usize) -> usize {
    count / BYTES
}

/// The answers to the first items of a part, at least one, and the items that the script left.
pub struct Taken<T, R> {
    pub answers: Vec<Result<R>>,
    pub left: Vec<T>,
}

impl<T, R> Taken<T, R> {
    /// All items of the part.
    pub fn all(answers: Vec<Result<R>>) -> Taken<T, R> {
        let left = Vec::new();
        Taken { answers, left }
    }
}

/// Sends items part by part, for at most so long. `cost` is told the item before in the same part, if there is one. A part that
/// fails fails its own items and ends the call: what came before it stands, what would have come after it is not sent.
pub async fn in_parts<T, R, F>(
    time: Duration,
    items: Vec<T>,
    cost: impl Fn(Option<&T>, &T) -> usize,
    send: impl Fn(Vec<T>) -> F,
) -> Result<Vec<Result<R>>>
where
    F: Future<Output = Result<Taken<T, R>>>,
{
    let end = Instant::now() + time;
    let mut waiting = VecDeque::from(items);
    let mut answers = Vec::with_capacity(waiting.len());
    let mut most = usize::MAX;
    while !waiting.is_empty() {
        let part = next(&mut waiting, &cost, most);
        let count = part.len();
        match send(part).await {
            Ok(taken) => {
                if !taken.left.is_empty() {
                    // What is true of these is likely to be true of the next.
                    most = taken.answers.len();
                }
                answers.extend(taken.answers);
                taken
                    .left
                    .into_iter()
                    .rev()
                    .for_each(|item| waiting.push_front(item));
                if Instant::now() >= end {
                    let time = auxo_core::text::duration(time);
                    let why = format!("not sent: the other parts of the call took its {time}");
                    leave(&mut waiting, &mut answers, why);
                }
            }
            Err(error) if answers.is_empty() => return Err(error),
            Err(error) => {
                answers.extend((0..count).map(|_| Err(error.clone())));
                let why = format!(
                    "not sent after another part of the call failed: {}",
                    error.message()
                );
                leave(&mut waiting, &mut answers, why);
            }
        }
    }
    Ok(answers)
}

/// Answers what is not sent any more.
fn leave<T, R>(waiting: &mut VecDeque<T>, answers: &mut Vec<Result<R>>, why: String) {
    let unsent = Error::new(Code::Unavailable, why);
    answers.extend(waiting.drain(..).map(|_| Err(unsent.clone())));
}

/// Takes the first items off the line, at least one, that cost no more than the budget together.
pub fn next<T>(
    waiting: &mut VecDeque<T>,
    cost: impl Fn(Option<&T>, &T) -> usize,
    most: usize,
) -> Vec<T> {
    let mut part: Vec<T> = Vec::new();
    let mut spent = 0;
    while let Some(item) = waiting.front() {
        spent += cost(part.last(), item);
        if !part.is_empty() && (spent > BUDGET || part.len() >= most) {
            break;
        }
        part.extend(waiting.pop_front());
    }
    part
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Sends numbers of which each costs so much, to a script that takes at most `takes` of them and fails at `fails`.
    async fn sent(
        count: usize,
        each: usize,
        takes: usize,
        fails: Option<usize>,
    ) -> (Vec<usize>, Result<Vec<Result<usize>>>) {
        let sizes = Mutex::new(Vec::new());
        let items: Vec<usize> = (0..count).collect();
        let send = |mut part: Vec<usize>| {
            sizes.lock().unwrap().push(part.len());
            async move {
                if fails.is_some_and(|fails| part.contains(&fails)) {
                    return Err(Error::new(Code::UnknownOutcome, "no answer"));
                }
                let left = part.split_off(takes.min(part.len()));
                let answers = part.into_iter().map(Ok).collect();
                Ok(Taken { answers, left })
            }
        };
        let answers = in_parts(Duration::from_secs(60), items, |_, _| each, send).await;
        (sizes.into_inner().unwrap(), answers)
    }

    #[tokio::test]
    async fn no_part_costs_more_than_the_budget_unless_it_is_one_item() {
        let whole: Vec<usize> = (0..10).collect();
        for (each, sizes) in [
            (BUDGET / 4, vec![4, 4, 2]),
            (BUDGET / 10, vec![10]),
            (2 * BUDGET, vec![1; 10]),
        ] {
            let (seen, answers) = sent(10, each, 10, None).await;
            assert_eq!(seen, sizes);
            let answers: Vec<usize> = answers.unwrap().into_iter().map(Result::unwrap).collect();
            assert_eq!(answers, whole);
        }
    }

    #[tokio::test]
    async fn what_a_script_leaves_is_sent_again_in_order_and_in_smaller_parts() {
        let (sizes, answers) = sent(10, BUDGET / 8, 3, None).await;
        assert_eq!(sizes, [8, 3, 3, 1]);
        let answers: Vec<usize> = answers.unwrap().into_iter().map(Result::unwrap).collect();
        assert_eq!(answers, (0..10).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_part_that_fails_leaves_what_was_done_and_ends_the_call() {
        let (sizes, answers) = sent(10, BUDGET / 2, 10, Some(5)).await;
        assert_eq!(sizes, [2, 2, 2]);
        let codes: Vec<_> = answers
            .unwrap()
            .into_iter()
            .map(|answer| answer.map_err(|e| e.code()))
            .collect();
        assert_eq!(codes[..4], [Ok(0), Ok(1), Ok(2), Ok(3)]);
        assert_eq!(codes[4..6], [Err(Code::UnknownOutcome); 2]);
        assert_eq!(codes[6..], [Err(Code::Unavailable); 4]);
        let (_, answers) = sent(10, BUDGET / 2, 10, Some(0)).await;
        assert_eq!(answers.unwrap_err().code(), Code::UnknownOutcome);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_has_one_time_for_all_its_parts() {
        let second = Duration::from_secs(1);
        let send = |part: Vec<usize>| async move {
            tokio::time::sleep(second).await;
            Ok(Taken::all(part.into_iter().map(Ok).collect()))
        };
        let began = Instant::now();
        let answers = in_parts(3 * second, (0..5).collect(), |_, _| BUDGET, send).await;
        assert_eq!(began.elapsed(), 3 * second);
        let codes: Vec<_> = answers
            .unwrap()
            .into_iter()
            .map(|answer| answer.map_err(|e| e.code()))
            .collect();
        assert_eq!(codes[..3], [Ok(0), Ok(1), Ok(2)]);
        assert_eq!(codes[3..], [Err(Code::Unavailable); 2]);
    }
}
