//! One line of a request.

use auxo_core::QueueName;

use super::{Reply, Request};

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// All of it.
    Whole(Request),
    /// A job whose body follows.
    Put {
        priority: u32,
        delay: u32,
        ttr: u32,
        size: u32,
        /// Something stands behind the size.
        garbage: bool,
    },
}

/// Reads a line without its CR LF.
pub fn parse(line: &[u8]) -> Result<Line, Reply> {
    if line.contains(&0) {
        return Err(Reply::BadFormat);
    }
    // The first word that a line begins with decides, so the longer of two that begin alike comes first.
    let rest = |word: &str| line.strip_prefix(word.as_bytes());
    let whole = |request| Ok(Line::Whole(request));
    let bare = |rest: &[u8], request| match rest.is_empty() {
        true => whole(request),
        false => Err(Reply::BadFormat),
    };
    if let Some(rest) = rest("put ") {
        put(rest)
    } else if let Some(rest) = rest("peek ") {
        whole(Request::Peek(only_number(rest)?))
    } else if let Some(rest) = rest("peek-ready") {
        bare(rest, Request::PeekReady)
    } else if let Some(rest) = rest("peek-delayed") {
        bare(rest, Request::PeekDelayed)
    } else if let Some(rest) = rest("peek-buried") {
        bare(rest, Request::PeekBuried)
    } else if let Some(rest) = rest("reserve-with-timeout ") {
        whole(Request::ReserveWithTimeout(timeout(rest)?))
    } else if let Some(rest) = rest("reserve-job ") {
        whole(Request::ReserveJob(only_number(rest)?))
    } else if let Some(rest) = rest("reserve") {
        bare(rest, Request::Reserve)
    } else if let Some(rest) = rest("delete ") {
        whole(Request::Delete(only_number(rest)?))
    } else if let Some(rest) = rest("release ") {
        release(rest)
    } else if let Some(rest) = rest("bury ") {
        bury(rest)
    } else if let Some(rest) = rest("kick ") {
        whole(Request::Kick(bound(rest)?))
    } else if let Some(rest) = rest("kick-job ") {
        whole(Request::KickJob(only_number(rest)?))
    } else if let Some(rest) = rest("touch ") {
        whole(Request::Touch(only_number(rest)?))
    } else if let Some(rest) = rest("stats-job ") {
        whole(Request::StatsJob(only_number(rest)?))
    } else if let Some(rest) = rest("stats-tube ") {
        whole(Request::StatsTube(tube(rest)?))
    } else if let Some(rest) = rest("stats") {
        bare(rest, Request::Stats)
    } else if let Some(rest) = rest("use ") {
        whole(Request::Use(tube(rest)?))
    } else if let Some(rest) = rest("watch ") {
        whole(Request::Watch(tube(rest)?))
    } else if let Some(rest) = rest("ignore ") {
        whole(Request::Ignore(tube(rest)?))
    } else if let Some(rest) = rest("list-tubes-watched") {
        bare(rest, Request::ListTubesWatched)
    } else if let Some(rest) = rest("list-tube-used") {
        bare(rest, Request::ListTubeUsed)
    } else if let Some(rest) = rest("list-tubes") {
        bare(rest, Request::ListTubes)
    } else if rest("quit").is_some() {
        whole(Request::Quit)
    } else if let Some(rest) = rest("pause-tube") {
        pause(rest)
    } else {
        Err(Reply::UnknownCommand)
    }
}

fn put(mut rest: &[u8]) -> Result<Line, Reply> {
    let (priority, delay) = (small(&mut rest)?, small(&mut rest)?);
    let (ttr, size) = (small(&mut rest)?, small(&mut rest)?);
    Ok(Line::Put {
        priority,
        delay,
        ttr: ttr.max(1),
        size,
        garbage: !rest.is_empty(),
    })
}

fn release(mut rest: &[u8]) -> Result<Line, Reply> {
    let id = number(&mut rest)?;
    let (priority, delay) = (small(&mut rest)?, small(&mut rest)?);
    end(rest)?;
    Ok(Line::Whole(Request::Release {
        id,
        priority,
        delay,
    }))
}

fn bury(mut rest: &[u8]) -> Result<Line, Reply> {
    let (id, priority) = (number(&mut rest)?, small(&mut rest)?);
    end(rest)?;
    Ok(Line::Whole(Request::Bury { id, priority }))
}

fn pause(rest: &[u8]) -> Result<Line, Reply> {
    let rest = without_spaces(rest);
    let length = rest.iter().take_while(|byte| is_in_name(**byte)).count();
    let (name, mut rest) = rest.split_at(length);
    let delay = small(&mut rest)?;
    end(rest)?;
    Ok(Line::Whole(Request::PauseTube(tube(name)?, delay)))
}

fn end(rest: &[u8]) -> Result<(), Reply> {
    match rest.is_empty() {
        true => Ok(()),
        false => Err(Reply::BadFormat),
    }
}

fn without_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|byte| **byte == b' ').count();
    &text[spaces..]
}

/// A number at the beginning, which is taken away, and any spaces before it.
fn number(rest: &mut &[u8]) -> Result<u64, Reply> {
    let text = without_spaces(rest);
    let (value, behind) = digits(text).ok_or(Reply::BadFormat)?;
    *rest = behind;
    Ok(value)
}

fn small(rest: &mut &[u8]) -> Result<u32, Reply> {
    u32::try_from(number(rest)?).map_err(|_| Reply::BadFormat)
}

fn only_number(mut rest: &[u8]) -> Result<u64, Reply> {
    let value = number(&mut rest)?;
    end(rest)?;
    Ok(value)
}

/// The digits at the beginning as a number, if there are any and they are not too many, and what is behind them.
fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, behind) = text.split_at(length);
    let value = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((value, behind))
}

/// How many to kick, read as the C library reads an unsigned number: a sign is allowed, and whatever stands behind it.
fn bound(rest: &[u8]) -> Result<u32, Reply> {
    let (sign, text) = signed(rest);
    let (value, _) = digits(text).ok_or(Reply::BadFormat)?;
    // beanstalkd keeps the lower half, too.
    Ok(value.wrapping_mul(sign as u64) as u32)
}

/// How long to wait, read as the C library reads a signed number: what is no number is zero. Below zero means for ever.
fn timeout(rest: &[u8]) -> Result<Option<u32>, Reply> {
    let (sign, text) = signed(rest);
    if !text.first().is_some_and(u8::is_ascii_digit) {
        return Ok(Some(0));
    }
    let (value, _) = digits(text).ok_or(Reply::BadFormat)?;
    let value = i64::try_from(value).map_err(|_| Reply::BadFormat)? * sign;
    Ok(u32::try_from(value as i32).ok())
}

fn signed(text: &[u8]) -> (i64, &[u8]) {
    let is_space = |byte: &&u8| matches!(**byte, b' ' | b'\t'..=b'\r');
    let spaces = text.iter().take_while(is_space).count();
    match &text[spaces..] {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        rest => (1, rest),
    }
}

fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+/;:.$_()".contains(&byte)
}

/// The name of a tube is that of a queue. Unlike beanstalkd's it may have colons.
fn tube(name: &[u8]) -> Result<QueueName, Reply> {
    let name = std::str::from_utf8(name).map_err(|_| Reply::BadFormat)?;
    QueueName::new(name).map_err(|_| Reply::BadFormat)
}
