//! Answers of a call, one behind the other.

use std::vec::IntoIter;

use auxo_core::{Code, Error, Result};

/// The answers to the items of a call, or the one that the whole call got.
pub enum Answers<T> {
    /// One for each item.
    Each(IntoIter<Result<T>>),
    /// The same for all.
    All(Error),
}

impl<T> Answers<T> {
    /// What the call answered.
    pub fn new(answers: Result<Vec<Result<T>>>) -> Answers<T> {
        match answers {
            Ok(answers) => Answers::Each(answers.into_iter()),
            Err(error) => Answers::All(error),
        }
    }

    /// What the next item got.
    pub fn next(&mut self) -> Result<T> {
        match self {
            Answers::All(error) => Err(error.clone()),
            Answers::Each(answers) => answers.next().unwrap_or_else(|| {
                let text = "the engine has fewer answers than it was asked for";
                Err(Error::new(Code::Internal, text))
            }),
        }
    }
}
