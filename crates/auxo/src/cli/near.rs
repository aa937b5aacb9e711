//! What somebody may have meant who named a queue that does not exist.

use auxo::core::service::Service;
use auxo::{Code, Error, QueueInfo, QueueName};

use super::failure::Failure;

/// These queues. Where one is missing, the refusal names those that are spelled much like it.
pub async fn existing(service: &Service, names: &[QueueName]) -> Result<Vec<QueueInfo>, Failure> {
    let queues = service.queues(Some(names.to_vec())).await?;
    let there = |name: &QueueName| queues.iter().any(|queue| queue.name == *name);
    match names.iter().find(|name| !there(name)) {
        None => Ok(queues),
        Some(name) => Err(unknown(service, name).await?.into()),
    }
}

/// The refusal of a queue that does not exist.
pub async fn unknown(service: &Service, name: &QueueName) -> auxo::Result<Error> {
    let all = service.reachable_queues().await?.queues;
    let names = all.iter().map(|queue| queue.name.as_str());
    let message = match near(name.as_str(), names).as_slice() {
        [] => format!("there is no queue {name}"),
        near => format!(
            "there is no queue {name}; did you mean {}?",
            near.join(" or ")
        ),
    };
    Ok(Error::new(Code::NotFound, message))
}

/// At most three of the names, the nearest first.
fn near<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    // Of a short name little is left after two slips.
    let most = (name.chars().count() / 2).min(2);
    let mut near: Vec<(usize, &str)> = names
        .map(|other| (distance(name, other), other))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    near.sort_unstable();
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

/// How many characters must be put in, left out or changed to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_near_and_another_word_is_not() {
        let names = ["mail", "mails", "email", "urgent", "a"];
        let near = |name| near(name, names.into_iter());
        assert_eq!(near("mial"), ["mail"]);
        assert_eq!(near("mailx"), ["mail", "mails", "email"]);
        assert_eq!(near("urgnet"), ["urgent"]);
        assert!(near("b").is_empty(), "one letter is like any other");
        assert!(near("video").is_empty());
    }

    #[test]
    fn a_distance_counts_letters_put_in_left_out_and_changed() {
        let table = [("", "", 0), ("", "ab", 2), ("mail", "mial", 2)];
        for (one, other, expected) in table.into_iter().chain([("kitten", "sitting", 3)]) {
            assert_eq!(distance(one, other), expected);
            assert_eq!(distance(other, one), expected);
        }
    }
}
