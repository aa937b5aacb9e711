//! The machine and this process, as the kernel describes them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::{Plan, Result};

/// Prints what the numbers below it depend on.
pub fn print_header(plan: &Plan) -> Result<()> {
    let cores = std::thread::available_parallelism()?;
    let memory = field("/proc/meminfo", "MemTotal:")? / 1024;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let model = fs::read_to_string("/proc/cpuinfo")?
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or(String::from("unknown"), |(_, name)| name.to_owned());
    println!(
        "machine:  {cores} cores ({model}), {memory} MiB memory, Linux {}",
        kernel.trim()
    );
    println!("data:     {}", file_system(&plan.dir.canonicalize()?)?);
    println!(
        "settings: 100 B payload, segments of {} MiB, {} rounds of {} s per side, alternating, medians; each round starts \
         after a sync of the file system",
        plan.segment >> 20,
        plan.rounds,
        plan.span.as_secs_f64(),
    );
    println!(
        "          CPU is user + system time of the process, all threads; bytes are those handed to write()"
    );
    Ok(())
}

/// The file system below a path: its type and device.
fn file_system(path: &Path) -> Result<String> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let best = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?, words.next()?, words.next()?))
        })
        .filter(|(_, at, ..)| path.starts_with(at))
        .max_by_key(|(_, at, ..)| at.len());
    Ok(
        best.map_or(String::from("unknown"), |(device, _, kind, options)| {
            format!("{kind} on {device} ({options})")
        }),
    )
}

/// User and system time of this process so far.
pub fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// User and system time of a process, in steps of a hundredth of a second.
pub fn cpu_of(process: &str) -> Result<Times> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may hold anything.
    let (_, rest) = stat.rsplit_once(')').ok_or("no name in stat")?;
    let ticks: Vec<u64> = rest
        .split_whitespace()
        .skip(11)
        .take(4)
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    let time = |at: usize| Duration::from_millis((ticks[at] + ticks[at + 1]) * 10);
    Ok(Times {
        own: time(0),
        children: time(2),
    })
}

/// What a process has used of the processors.
pub struct Times {
    pub own: Duration,
    /// Of its children that have ended.
    pub children: Duration,
}

/// The resident memory of this process, in bytes.
pub struct Resident {
    /// All of it.
    pub now: u64,
    /// The part that it asked for itself.
    pub anonymous: u64,
    /// The most there ever was.
    pub peak: u64,
}

pub fn resident() -> Result<Resident> {
    resident_of("self")
}

/// The resident memory of a process.
pub fn resident_of(process: &str) -> Result<Resident> {
    let path = format!("/proc/{process}/status");
    let bytes = |name| Ok::<u64, Box<dyn std::error::Error>>(field(&path, name)? * 1024);
    Ok(Resident {
        now: bytes("VmRSS:")?,
        anonymous: bytes("RssAnon:")?,
        peak: bytes("VmHWM:")?,
    })
}

fn field(path: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(path)?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .ok_or(format!("{path} has no {name}"))?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}

/// Waits until everything written so far is on the disk, so that one side does not pay for the other's writes.
pub fn settle(dir: &Path) -> Result<()> {
    rustix::fs::syncfs(fs::File::open(dir)?)?;
    Ok(())
}

/// The bytes that the files of a directory take on the disk.
pub fn disk_use(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        sum += entry?.metadata()?.blocks() * 512;
    }
    Ok(sum)
}
