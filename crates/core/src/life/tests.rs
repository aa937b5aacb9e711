use std::collections::BTreeSet;

use super::*;

type Arrow = (Option<State>, Event, State);

/// What each label of the drawing means. A release and a vanished lease both point at ready there; in the table a release
/// goes to scheduled, from where a job whose time has come is ready in the same moment.
const LABELS: &[(&str, &[Arrow])] = &[
    ("push(delay)", &[(None, Push, Scheduled)]),
    ("due", &[(Some(Scheduled), Due, Ready)]),
    ("lease", &[(Some(Ready), Lease, Leased)]),
    ("ack", &[(Some(Leased), Ack, Done)]),
    ("fail (retry)", &[(Some(Leased), Retry, Scheduled)]),
    ("snooze", &[(Some(Leased), Snooze, Scheduled)]),
    ("release", &[(Some(Leased), Release, Scheduled)]),
    ("lease expired", &[(Some(Leased), Vanish, Ready)]),
    ("bury", &[(Some(Leased), Bury, Dead)]),
    (
        "last failure",
        &[(Some(Leased), Fail, Dead), (Some(Leased), Exhaust, Dead)],
    ),
    ("expired", &[(Some(Leased), Expire, Dead)]),
    ("kick", &[(Some(Dead), Kick, Ready)]),
];

/// The lines of the drawing in the module's documentation.
fn drawing() -> Vec<&'static str> {
    include_str!("../life.rs")
        .lines()
        .skip_while(|line| *line != "//! ```text")
        .skip(1)
        .take_while(|line| *line != "//! ```")
        .map(|line| line.trim_start_matches("//!").trim_start())
        .collect()
}

/// The moves written out below the picture: `event: from, from ──> to`.
fn listed() -> BTreeSet<Arrow> {
    drawing()
        .into_iter()
        .filter_map(|line| line.split_once(": "))
        .flat_map(|(event, rest)| {
            let event = Event::ALL
                .into_iter()
                .find(|known| known.as_str() == event)
                .unwrap_or_else(|| panic!("{event} is no event"));
            let (from, to) = rest.split_once("──>").expect("an arrow");
            let to: State = to.split_whitespace().next().unwrap().parse().unwrap();
            let from: Vec<State> = from.split(',').map(|s| s.trim().parse().unwrap()).collect();
            from.into_iter().map(move |from| (Some(from), event, to))
        })
        .collect()
}

/// The words in the picture that are not states, nor the remark about retention.
fn labels() -> Vec<&'static str> {
    drawing()
        .into_iter()
        .filter(|line| !line.contains(": "))
        .map(|line| line.split("(kept").next().unwrap())
        .flat_map(|line| line.split(['─', '>', '<', '^', '│', '├', '┼', '┴', '└', '┘', '/']))
        .map(str::trim)
        .filter(|word| !word.is_empty() && word.parse::<State>().is_err())
        .collect()
}

#[test]
fn the_drawing_and_the_table_have_the_same_arrows() {
    let mut drawn = listed();
    for label in labels() {
        let (_, arrows) = LABELS
            .iter()
            .find(|(known, _)| *known == label)
            .unwrap_or_else(|| panic!("{label:?} is drawn and means nothing"));
        drawn.extend(arrows.iter());
    }
    let table: BTreeSet<Arrow> = ARROWS.iter().copied().collect();
    let render = |arrows: &BTreeSet<Arrow>| -> Vec<String> {
        arrows
            .iter()
            .map(|(from, event, to)| {
                let from = from.map_or("nothing", State::as_str);
                format!("{from} ──{event}──> {to}")
            })
            .collect()
    };
    assert_eq!(render(&drawn), render(&table));
}

#[test]
fn every_label_is_drawn_once() {
    let mut drawn = labels();
    let mut known: Vec<&str> = LABELS.iter().map(|(label, _)| *label).collect();
    drawn.sort();
    known.sort();
    assert_eq!(drawn, known);
}

#[test]
fn straight_arrows_join_the_states_they_are_drawn_between() {
    let line = drawing()[0];
    let words: Vec<&str> = line
        .split(['─', '>', '('])
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect();
    // push, delay), scheduled, due, ready, lease, leased, ack, done, …
    for step in [2, 4, 6] {
        let (from, to) = (
            words[step].parse().unwrap(),
            words[step + 2].parse().unwrap(),
        );
        let event = Event::ALL
            .into_iter()
            .find(|event| event.as_str() == words[step + 1])
            .unwrap();
        assert_eq!(next(Some(from), event), Some(to), "{event}");
    }
}

#[test]
fn a_move_leads_to_one_state_only() {
    let starts: BTreeSet<(Option<State>, Event)> = ARROWS.iter().map(|a| (a.0, a.1)).collect();
    assert_eq!(starts.len(), ARROWS.len());
}

#[test]
fn a_done_job_can_only_be_deleted_and_a_cancelled_one_not_even_that() {
    for event in Event::ALL {
        let deleted = (event == Delete).then_some(Cancelled);
        assert_eq!(next(Some(Done), event), deleted, "{event}");
        assert_eq!(next(Some(Cancelled), event), None, "{event}");
    }
}

#[test]
fn every_state_can_be_reached_and_every_event_can_happen() {
    let mut reached: BTreeSet<Option<State>> = [None].into();
    loop {
        let before = reached.len();
        let steps = ARROWS.iter().filter(|arrow| reached.contains(&arrow.0));
        let found: Vec<_> = steps.map(|arrow| Some(arrow.2)).collect();
        reached.extend(found);
        if reached.len() == before {
            break;
        }
    }
    for state in State::ALL {
        assert!(reached.contains(&Some(state)), "{state}");
        assert_eq!(state.as_str().parse::<State>().unwrap(), state);
    }
    for event in Event::ALL {
        assert!(ARROWS.iter().any(|arrow| arrow.1 == event), "{event}");
    }
}

#[test]
fn a_leased_job_is_never_deleted_and_only_push_makes_one() {
    assert_eq!(next(Some(Leased), Delete), None);
    for event in Event::ALL {
        assert_eq!(next(None, event).is_some(), event == Push, "{event}");
    }
}
