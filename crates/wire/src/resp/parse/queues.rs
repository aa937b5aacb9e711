//! Commands about queues, and the walks over all queues and jobs.

use auxo_core::State;

use super::{Args, Command, Reader, Reply, refused, small, whole};
use crate::resp::{JScan, Pause, QScan};

/// How many a walk takes at once unless it says.
const COUNT: u32 = 100;

pub fn qlen(reader: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let queue = reader.queue(args.get(1)).map_err(refused)?;
    Ok(Command::QLen(queue))
}

pub fn qpeek(reader: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let count = whole(args.get(2))?;
    let queue = reader.queue(args.get(1)).map_err(refused)?;
    Ok(Command::QPeek(queue, count))
}

pub fn qstat(reader: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let queue = reader.queue(args.get(1)).map_err(refused)?;
    Ok(Command::QStat(queue))
}

pub fn qscan(_: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let mut scan = QScan {
        cursor: 0,
        count: COUNT,
        all: false,
        minlen: None,
        maxlen: None,
        importrate: None,
    };
    let (mut at, mut cursor) = (1, None);
    while at < args.len() {
        let is_last = at + 1 == args.len();
        let number = || whole(args.get(at + 1));
        if args.is(at, "busyloop") {
            scan.all = true;
            at += 1;
            continue;
        } else if args.is(at, "count") && !is_last {
            scan.count = small(number()?);
        } else if args.is(at, "minlen") && !is_last {
            scan.minlen = Some(number()?);
        } else if args.is(at, "maxlen") && !is_last {
            scan.maxlen = Some(number()?);
        } else if args.is(at, "importrate") && !is_last {
            scan.importrate = Some(number()?);
        } else {
            set_cursor(&mut cursor, args.get(at))?;
            at += 1;
            continue;
        }
        at += 2;
    }
    scan.cursor = cursor.unwrap_or_default();
    Ok(Command::QScan(scan))
}

pub fn jscan(reader: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let mut scan = JScan {
        cursor: 0,
        count: COUNT,
        all: false,
        queue: None,
        states: None,
        whole: false,
    };
    let (mut at, mut cursor) = (1, None);
    while at < args.len() {
        let is_last = at + 1 == args.len();
        let value = args.get(at + 1);
        if args.is(at, "busyloop") {
            scan.all = true;
            at += 1;
            continue;
        } else if args.is(at, "count") && !is_last {
            scan.count = small(whole(value)?);
        } else if args.is(at, "queue") && !is_last {
            scan.queue = Some(reader.queue(value).map_err(refused)?);
        } else if args.is(at, "state") && !is_last {
            let states = states(value).ok_or_else(|| Reply::wrong("Invalid job state name"))?;
            scan.states.get_or_insert_default().extend(states);
        } else if args.is(at, "reply") && !is_last {
            scan.whole = match value.to_ascii_lowercase().as_slice() {
                b"all" => true,
                b"id" => false,
                _ => return Err(Reply::wrong("Invalid REPLY type, try ID or ALL")),
            };
        } else {
            set_cursor(&mut cursor, args.get(at))?;
            at += 1;
            continue;
        }
        at += 2;
    }
    scan.cursor = cursor.unwrap_or_default();
    Ok(Command::JScan(scan))
}

/// What Disque's words for states mean here, and our word for those that it has none for.
fn states(word: &[u8]) -> Option<&'static [State]> {
    Some(match word.to_ascii_lowercase().as_slice() {
        // A job is answered when it is kept.
        b"wait-repl" => &[],
        b"active" => &[State::Scheduled, State::Leased],
        b"queued" => &[State::Ready],
        b"acked" => &[State::Done],
        b"dead" => &[State::Dead],
        _ => return None,
    })
}

fn set_cursor(cursor: &mut Option<u64>, argument: &[u8]) -> Result<(), Reply> {
    if cursor.is_some() {
        return Err(Reply::SYNTAX);
    }
    let digits = std::str::from_utf8(argument).ok();
    let number = digits.and_then(|digits| digits.parse().ok());
    *cursor = Some(number.ok_or_else(|| Reply::wrong("invalid cursor"))?);
    Ok(())
}

pub fn pause(reader: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let mut set = None;
    for at in 2..args.len() {
        let (into, out) = set.unwrap_or_default();
        if args.is(at, "none") {
            set = Some((false, false));
        } else if args.is(at, "in") {
            set = Some((true, out));
        } else if args.is(at, "out") {
            set = Some((into, true));
        } else if args.is(at, "all") {
            set = Some((true, true));
        } else if !args.is(at, "state") && !args.is(at, "bcast") {
            return Err(Reply::SYNTAX);
        }
    }
    let queue = reader.queue(args.get(1)).map_err(refused)?;
    Ok(Command::Pause(Pause { queue, set }))
}
