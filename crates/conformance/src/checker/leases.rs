//! The rules about one job's leases: payload, time, order, attempts, tokens, and why there is another one.

use auxo_core::State;

use super::Kind;
use super::cases::{End, Judge, Lease, Place};
use crate::history::{Op, Phase};

pub(super) fn check(judge: &mut Judge<'_>) {
    payloads(judge);
    token_order(judge);
    let case = judge.case;
    let mut before: Option<&Lease> = None;
    for lease in &case.leases {
        attempt(judge, before, lease);
        early(judge, before, lease);
        if let Some(before) = before {
            again(judge, before, lease);
        }
        before = Some(lease);
    }
    exhausted(judge);
    stale(judge);
    acks(judge);
    cancels(judge);
}

fn payloads(judge: &mut Judge<'_>) {
    let case = judge.case;
    let Some(push) = judge.pushes().next() else {
        return;
    };
    let leased = case.leases.iter().filter_map(|lease| lease.hash);
    let found = case.found.iter().map(|found| found.hash);
    for hash in leased.chain(found) {
        let own = judge.pushes().any(|push| push.hash == Some(hash));
        // A push with the same key that was never answered may have replaced the payload.
        let others = judge.cases.by_hash.get(&hash).into_iter().flatten();
        let mut others = others.map(|index| &judge.cases.pushes[*index]);
        let replaced = others
            .any(|other| other.span.possible() && push.key.is_some() && other.key == push.key);
        if !own && !replaced {
            judge.broken(
                Kind::Unexpected,
                "was seen with a payload that is not its own",
            );
        }
    }
}

/// Leases are sorted by token; one that ended before another began must have the lower one.
fn token_order(judge: &mut Judge<'_>) {
    let mut began: Option<&Lease> = None;
    for lease in &judge.case.leases {
        if let Some(before) = began.filter(|before| before.epoch == lease.epoch) {
            if lease.received < before.invoked {
                judge.broken(
                    Kind::Tokens,
                    format!(
                        "was leased as {} and later as {}",
                        lease.token, before.token
                    ),
                );
            }
            if lease.token == before.token {
                judge.broken(
                    Kind::Overlap,
                    format!("was handed out twice as {}", lease.token),
                );
            } else if lease.token.counter == before.token.counter {
                judge.broken(
                    Kind::Tokens,
                    format!("two leases share the counter {}", lease.token.counter),
                );
            }
        }
        let latest =
            began.is_none_or(|began| (began.epoch, began.invoked) < (lease.epoch, lease.invoked));
        if latest {
            began = Some(lease);
        }
    }
}

fn attempt(judge: &mut Judge<'_>, before: Option<&Lease>, lease: &Lease) {
    let Some(now) = lease.attempt else {
        return;
    };
    let last = match before {
        None => 0,
        Some(before) => match before.attempt {
            Some(attempt) => attempt,
            None => return,
        },
    };
    if now <= last {
        let cut = before.is_some_and(|before| before.epoch < lease.epoch);
        if !cut || now <= durable_attempt(judge, lease) {
            judge.broken(
                Kind::Attempts,
                format!("attempt {now} came after attempt {last}"),
            );
        }
    } else if u64::from(now - last - 1) > judge.cases.unseen_before(lease.received) {
        judge.broken(
            Kind::Attempts,
            format!("attempt {now} came right after attempt {last}"),
        );
    }
}

/// The highest attempt that a power cut cannot undo, because its end was durable.
fn durable_attempt(judge: &Judge<'_>, lease: &Lease) -> u32 {
    let earlier = judge
        .case
        .leases
        .iter()
        .take_while(|l| l.epoch < lease.epoch);
    let durable = |end: &End| end.span.ok() && end.durable();
    earlier
        .filter(|earlier| earlier.ends.iter().any(durable))
        .filter_map(|earlier| earlier.attempt)
        .max()
        .unwrap_or(0)
}

fn early(judge: &mut Judge<'_>, before: Option<&Lease>, lease: &Lease) {
    let Some(granted) = lease.granted else {
        return;
    };
    let due = pushed_due(judge, lease).max(before.and_then(|it| settled_due(judge, it, lease)));
    if let Some(due) = due
        && granted + judge.slack < due
    {
        judge.broken(
            Kind::Early,
            format!("was leased at {granted}, but is due at {due}"),
        );
    }
}

/// The due time of the push; a lower bound for every lease unless the job was kicked.
fn pushed_due(judge: &Judge<'_>, lease: &Lease) -> Option<u64> {
    if judge.maybe_replaced() || judge.kicked_between(0, lease.received) {
        return None;
    }
    judge.pushes().next()?.due
}

/// The due time that the end of the lease before has set.
fn settled_due(judge: &Judge<'_>, before: &Lease, lease: &Lease) -> Option<u64> {
    let mut ends = possible_ends(before, lease.received);
    let (end, None) = (ends.next()?, ends.next()) else {
        return None;
    };
    let stands = before.epoch == lease.epoch || end.durable();
    let kicked = judge.kicked_between(end.span.invoked, lease.received);
    let known = end.span.ok() && stands && !kicked && !judge.maybe_replaced();
    end.due.filter(|_| known)
}

/// Settles that ended a lease, or may have, before a place.
fn possible_ends(lease: &Lease, before: Place) -> impl Iterator<Item = &End> {
    let ends = lease.ends.iter();
    ends.filter(move |end| end.span.possible() && end.span.invoked < before)
}

/// Asks why a job was handed out again.
fn again(judge: &mut Judge<'_>, before: &Lease, lease: &Lease) {
    if before.ends.iter().any(End::acked) || before.token == lease.token {
        return; // Judged by `acks` and `token_order`.
    }
    let mut ends = possible_ends(before, lease.received).peekable();
    if ends.peek().is_some() {
        let explained = ends.any(|end| explains(judge, end, lease));
        let cancelled = |end: &End| end.state == Some(State::Cancelled);
        let kind = match before.ends.iter().any(cancelled) {
            true => Kind::Resurrected,
            false => Kind::Unexplained,
        };
        if !explained {
            judge.broken(
                kind,
                format!(
                    "was leased as {} though {} ended it",
                    lease.token, before.token
                ),
            );
        }
        return;
    }
    if before.epoch < lease.epoch || expired(judge, before, lease) {
        return;
    }
    let let_go = before
        .ends
        .iter()
        .any(|end| end.span.invoked < lease.received);
    let (kind, what) = match let_go {
        false => (Kind::Overlap, "while it was held as"),
        true => (Kind::Unexplained, "without a reason after"),
    };
    judge.broken(
        kind,
        format!("was leased as {} {what} {}", lease.token, before.token),
    );
}

/// Whether another lease may follow this end.
fn explains(judge: &Judge<'_>, end: &End, lease: &Lease) -> bool {
    let gone = matches!(end.state, Some(State::Dead | State::Cancelled));
    end.span.phase == Phase::Unknown
        || !gone
        || judge.kicked_between(end.span.invoked, lease.received)
}

/// Whether a lease had surely or perhaps run out when the next one was granted.
fn expired(judge: &Judge<'_>, before: &Lease, lease: &Lease) -> bool {
    let mut deadline = before.deadline;
    for extend in &before.extends {
        match extend.span.phase {
            _ if extend.span.invoked > lease.received => {}
            Phase::Ok => deadline = extend.deadline,
            Phase::Unknown => return true,
            _ => {}
        }
    }
    match (deadline, lease.granted) {
        (Some(deadline), Some(granted)) => deadline <= granted + judge.slack,
        _ => true,
    }
}

/// A job that surely used up its tries must not be handed out again.
fn exhausted(judge: &mut Judge<'_>) {
    let case = judge.case;
    let Some((_, most)) = judge.tries() else {
        return;
    };
    let mut spent = 0;
    for pair in case.leases.windows(2) {
        let (before, lease) = (&pair[0], &pair[1]);
        let mut ends = possible_ends(before, lease.received);
        spent += match (ends.next(), ends.next()) {
            (Some(end), None) => u32::from(end.span.ok() && end.span.op == Op::Fail),
            (None, _) => 1,
            _ => 0,
        };
        if before.epoch < lease.epoch || judge.kicked_between(before.received, lease.received) {
            spent = 0;
        }
        if spent >= most {
            judge.broken(
                Kind::DeadLetter,
                format!("was leased again after {spent} of {most} tries had failed or vanished"),
            );
        }
    }
}

/// Settles and extends that were accepted though the lease was surely over.
fn stale(judge: &mut Judge<'_>) {
    let case = judge.case;
    if let Some(stray) = case.strays.iter().find(|stray| stray.span.ok()) {
        let what = format!("{} was accepted, but nobody was given it", stray.token);
        judge.broken(Kind::Unexpected, what);
    }
    let mut newer: Option<&Lease> = None;
    for lease in case.leases.iter().rev() {
        for end in lease.ends.iter().chain(&lease.extends) {
            let late = newer.filter(|newer| newer.received < end.span.invoked);
            let accepted = end.span.ok();
            if let Some(newer) = late.filter(|_| accepted) {
                judge.broken(
                    Kind::Stale,
                    format!(
                        "{} with {} was accepted though it was leased as {}",
                        end.span.op.as_str(),
                        lease.token,
                        newer.token
                    ),
                );
            }
        }
        after_the_end(judge, lease);
        if newer.is_none_or(|newer| lease.received < newer.received) {
            newer = Some(lease);
        }
    }
}

/// A token is good for one settle.
fn after_the_end(judge: &mut Judge<'_>, lease: &Lease) {
    let Some(first) = lease.ends.iter().find(|end| end.span.ok()) else {
        return;
    };
    let twice = lease.ends.iter().chain(&lease.extends).find(|end| {
        let later = first.span.answered < Some(end.span.invoked);
        let again = end.span.op != Op::Extend && end.span.invoked != first.span.invoked;
        let stands = first.durable() || first.epoch == end.epoch;
        end.span.ok() && stands && (later || again)
    });
    if let Some(twice) = twice {
        let both_acked = first.acked() && twice.acked();
        let kind = match both_acked {
            true => Kind::DoubleAck,
            false => Kind::Stale,
        };
        judge.broken(
            kind,
            format!(
                "{} with {} was accepted after its {}",
                twice.span.op.as_str(),
                lease.token,
                first.span.op.as_str()
            ),
        );
    }
}

/// At most one ack, and nothing after it.
fn acks(judge: &mut Judge<'_>) {
    let case = judge.case;
    let mut acked: Option<(&Lease, &End)> = None;
    for lease in &case.leases {
        let ack = lease.ends.iter().find(|end| end.acked());
        match (acked, ack) {
            (Some((first, _)), Some(_)) if first.token != lease.token => {
                judge.broken(
                    Kind::DoubleAck,
                    format!("was acked as {} and as {}", first.token, lease.token),
                );
            }
            _ => {}
        }
        if let Some((first, ack)) = acked
            && first.token != lease.token
            && lease.received > ack.span.invoked
        {
            judge.broken(
                Kind::Resurrected,
                format!(
                    "was leased as {} after the ack of {}",
                    lease.token, first.token
                ),
            );
        }
        if let Some(ack) = ack {
            acked = acked.or(Some((lease, ack)));
        }
    }
}

/// A cancelled job is not handed out. A cancel is not promised to survive a power cut.
fn cancels(judge: &mut Judge<'_>) {
    let case = judge.case;
    for cancel in case.cancels.iter().filter(|cancel| cancel.span.ok()) {
        let after = case.leases.iter().find(|lease| {
            lease.epoch == cancel.epoch && cancel.span.answered < Some(lease.invoked)
        });
        if let Some(lease) = after {
            judge.broken(
                Kind::Resurrected,
                format!("was cancelled, and then leased as {}", lease.token),
            );
        }
    }
}
