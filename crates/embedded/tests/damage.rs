//! Bits flip, files are cut, deleted, or hold blocks that belong elsewhere. Whatever is damaged is noticed or does no harm.

mod trace;

use std::collections::BTreeMap;
use std::time::Duration;

use auxo_conformance::bench::run;
use auxo_conformance::rounds;
use auxo_core::job::{JobSpec, Key, OnDuplicate};
use auxo_core::{Code, Engine, JobId, NewJob, QueueName, State};
use auxo_embedded::disk::sim::Rng;
use auxo_embedded::disk::{Disk, SimDisk};
use auxo_embedded::{Embedded, salvage_disks, snapshot};
use trace::{Trace, contents, open};

/// The size of the segments that a salvage makes.
const SEGMENT: u64 = 64 << 10;

type Contents = BTreeMap<JobId, (Vec<u8>, State)>;

/// A store with sealed segments, index files and a checkpoint, closed in good order or killed.
fn store(closed: bool) -> (SimDisk, Contents) {
    let disk = SimDisk::new();
    let (image, shown) = run(async {
        let engine = open(&disk).expect("a new store");
        let mut trace = Trace::default();
        trace.run(&engine, &mut Rng::new(5), 600).await;
        let shown = contents(&engine).await.expect("a whole store");
        let image = disk.kill();
        engine.close().await.expect("the store closes");
        (if closed { disk.kill() } else { image }, shown)
    });
    let names = image.list().expect("names");
    assert!(names.iter().any(|name| name.ends_with(".idx")), "{names:?}");
    (image, shown)
}

/// What became of damage.
#[derive(Debug, Default)]
struct Tally {
    refused: u32,
    noticed: u32,
    harmless: u32,
}

impl Tally {
    /// Opens a damaged store and reads all of it.
    fn look(&mut self, disk: &SimDisk, shown: &Contents, what: &str) {
        let engine = match open(disk) {
            Ok(engine) => engine,
            Err(error) => {
                let names_it =
                    error.message().contains("file ") && error.message().contains("byte");
                assert!(
                    names_it && error.code() == Code::Internal,
                    "{what}: {error}"
                );
                self.refused += 1;
                return;
            }
        };
        match run(contents(&engine)) {
            Err(error) => {
                assert!(error.message().contains("file "), "{what}: {error}");
                assert!(
                    engine.health().is_err(),
                    "{what}: the store goes on with damage"
                );
                self.noticed += 1;
            }
            Ok(found) => {
                assert!(
                    found == *shown,
                    "{what}: {} jobs instead of {}",
                    found.len(),
                    shown.len()
                );
                self.harmless += 1;
            }
        }
    }
}

/// `scripts/prove damage` has more rounds.
const ROUNDS: u64 = 15;
const FLIPS_PER_ROUND: u64 = 100;

fn flip(closed: bool, seed: u64) {
    let flips = rounds::or(ROUNDS) * FLIPS_PER_ROUND;
    let (disk, shown) = store(closed);
    let names = disk.list().expect("names");
    let mut rng = Rng::new(seed);
    let mut tally = Tally::default();
    for _ in 0..flips {
        let name = &names[rng.below(names.len() as u64) as usize];
        let len = disk.content(name).expect("a file").len() as u64;
        let (byte, bit) = (rng.below(len), rng.below(8) as u8);
        let image = disk.kill();
        image.flip_bit(name, byte, bit).expect("a bit");
        tally.look(
            &image,
            &shown,
            &format!("bit {bit} of byte {byte} of {name}"),
        );
    }
    println!("{flips} bit flips: {tally:?}, 0 wrong payloads, 0 lost in silence");
    assert!(tally.refused > 0 && tally.noticed > 0, "{tally:?}");
}

#[test]
fn flipped_bits_of_a_closed_store_are_noticed_or_harmless() {
    flip(true, 1);
}

#[test]
fn flipped_bits_of_a_killed_store_are_noticed_or_harmless() {
    flip(false, 2);
}

#[test]
fn damage_in_index_files_is_always_harmless() {
    let (disk, shown) = store(true);
    let mut names = disk.list().expect("names");
    names.retain(|name| name.ends_with(".idx"));
    let mut rng = Rng::new(6);
    let mut tally = Tally::default();
    for _ in 0..1000 {
        let name = &names[rng.below(names.len() as u64) as usize];
        let len = disk.content(name).expect("a file").len() as u64;
        let (byte, bit) = (rng.below(len), rng.below(8) as u8);
        let image = disk.kill();
        match rng.below(10) {
            0 => image.truncate(name, byte).expect("a file"),
            1 => image.delete(name).expect("a file"),
            _ => image.flip_bit(name, byte, bit).expect("a bit"),
        }
        tally.look(
            &image,
            &shown,
            &format!("bit {bit} of byte {byte} of {name}"),
        );
    }
    println!("{tally:?}");
    assert_eq!((tally.refused, tally.noticed), (0, 0), "{tally:?}");
}

#[test]
fn a_file_that_is_cut_short_or_missing_is_noticed_or_harmless() {
    let (disk, shown) = store(true);
    let mut tally = Tally::default();
    let mut rng = Rng::new(3);
    for name in disk.list().expect("names") {
        let image = disk.kill();
        image.delete(&name).expect("a file");
        tally.look(&image, &shown, &format!("{name} is missing"));
        let len = disk.content(&name).expect("a file").len() as u64;
        for _ in 0..20 {
            let at = rng.below(len);
            let image = disk.kill();
            image.truncate(&name, at).expect("a file");
            tally.look(&image, &shown, &format!("{name} ends at byte {at}"));
        }
    }
    println!("{tally:?}");
    assert!(tally.refused > 0, "{tally:?}");
}

#[test]
fn a_block_that_belongs_elsewhere_or_to_the_past_is_noticed_or_harmless() {
    const BLOCK: usize = 4096;
    let (disk, shown) = store(true);
    let mut tally = Tally::default();
    let mut rng = Rng::new(4);
    let names: Vec<String> = disk
        .list()
        .expect("names")
        .into_iter()
        .filter(|name| name.contains('.'))
        .collect();
    for _ in 0..300 {
        let mut block = || {
            let name = names[rng.below(names.len() as u64) as usize].clone();
            let blocks = disk.content(&name).expect("a file").len() / BLOCK;
            (name, rng.below(blocks as u64) as usize * BLOCK)
        };
        let ((name, at), (other, from)) = (block(), block());
        let bytes = disk.content(&other).expect("a file")[from..from + BLOCK].to_vec();
        let image = disk.kill();
        image
            .damage(&name, |content| {
                content[at..at + BLOCK].copy_from_slice(&bytes)
            })
            .expect("a file");
        tally.look(
            &image,
            &shown,
            &format!("{name} has at byte {at} what {other} has at {from}"),
        );
        let image = disk.kill();
        image
            .damage(&name, |content| content[at..at + BLOCK].fill(0))
            .expect("a file");
        tally.look(
            &image,
            &shown,
            &format!("{name} has at byte {at} what it had before it was written"),
        );
    }
    println!("{tally:?}");
    assert!(tally.refused > 0 && tally.noticed > 0, "{tally:?}");
}

/// A store whose first segment, which is sealed, has a job with the key `k` in a record that cannot be read.
fn with_a_damaged_key() -> SimDisk {
    let disk = SimDisk::new();
    run(async {
        let engine = open(&disk).expect("a new store");
        let mut jobs = vec![keyed("k", 100)];
        jobs.extend((0..200).map(|n| keyed(&n.to_string(), 500)));
        engine.push(jobs).await.expect("pushes");
        engine.close().await.expect("the store closes");
    });
    let damaged = disk.kill();
    damaged
        .damage("0000000001.log", |content| {
            let payload = content.windows(100).position(|bytes| bytes == [b'x'; 100]);
            content[payload.expect("the payload")] = b'y';
        })
        .expect("a segment");
    damaged
}

fn keyed(key: &str, len: usize) -> NewJob {
    NewJob {
        queue: trace::queue(),
        spec: JobSpec {
            payload: vec![b'x'; len].into(),
            key: Some(Key {
                name: key.into(),
                on_duplicate: OnDuplicate::Return,
                window: Duration::ZERO,
            }),
            ..JobSpec::default()
        },
    }
}

async fn live(engine: &Embedded) -> u64 {
    engine.queues(None).await.expect("the queues")[0].books.live
}

#[test]
fn a_push_that_meets_damage_after_its_first_jobs_does_not_say_that_nothing_happened() {
    let disk = with_a_damaged_key();
    let engine = open(&disk).expect("damage that nobody has met");
    let before = run(live(&engine));
    let jobs = vec![keyed("a", 10), keyed("b", 10), keyed("k", 10)];
    let error = run(engine.push(jobs)).expect_err("the third cannot be looked up");
    assert_eq!(error.code(), Code::UnknownOutcome, "{error}");
    assert!(error.message().contains("file 0000000001.log"), "{error}");
    drop(engine);
    let engine = open(&disk.kill()).expect("damage that nobody has met");
    assert_eq!(run(live(&engine)), before + 2, "the first two were written");
}

#[test]
fn a_push_that_meets_damage_at_once_says_that_nothing_happened() {
    let disk = with_a_damaged_key();
    let engine = open(&disk).expect("damage that nobody has met");
    let before = run(live(&engine));
    let jobs = vec![keyed("k", 10), keyed("a", 10)];
    let error = run(engine.push(jobs)).expect_err("the first cannot be looked up");
    assert_eq!(error.code(), Code::Internal, "{error}");
    drop(engine);
    let engine = open(&disk.kill()).expect("damage that nobody has met");
    assert_eq!(run(live(&engine)), before);
}

/// A store of one segment that has no checkpoint yet, closed in good order or killed.
fn young_store(closed: bool) -> (SimDisk, Contents) {
    let disk = SimDisk::new();
    run(async {
        let engine = open(&disk).expect("a new store");
        for n in 0..30 {
            let pushed = engine.push(vec![keyed(&n.to_string(), 100)]).await;
            pushed.expect("a push").remove(0).expect("a push");
        }
        let shown = contents(&engine).await.expect("a whole store");
        let image = disk.kill();
        engine.close().await.expect("the store closes");
        (if closed { disk.kill() } else { image }, shown)
    })
}

/// Cuts a file of a store to this length; `None` deletes it.
fn cut(disk: &SimDisk, name: &str, len: Option<u64>) -> SimDisk {
    let image = disk.kill();
    match len {
        Some(len) => image.truncate(name, len).expect("a file"),
        None => image.delete(name).expect("a file"),
    }
    image
}

/// Every way to cut a file: it is deleted, emptied, or ends somewhere, also within its header and just before its end.
fn cuts(disk: &SimDisk, name: &str, rng: &mut Rng) -> Vec<Option<u64>> {
    let content = disk.content(name).expect("a file");
    let used = content.iter().rposition(|byte| *byte != 0).unwrap_or(0) as u64;
    let mut cuts = vec![None, Some(0), Some(31), Some(used)];
    cuts.extend((0..2).map(|_| Some(rng.below(used.max(1)))));
    cuts.retain(|len| len.is_none_or(|len| len < content.len() as u64));
    cuts
}

/// Salvages a store that was cut, which copies every job or says that something is lost.
fn salvage_cut(image: &SimDisk, shown: &Contents, what: &str) -> Vec<String> {
    let target = SimDisk::new();
    let report = salvage_disks(image, std::sync::Arc::new(target.clone()), SEGMENT);
    let report = report.unwrap_or_else(|error| panic!("{what}: {error}"));
    if !report.lost.is_empty() {
        assert!(report.may_repeat, "{what}");
        return report.lost;
    }
    let found = open(&target).and_then(|engine| run(contents(&engine)));
    let found = found.unwrap_or_else(|error| panic!("{what}: the copy: {error}"));
    let missed = shown.keys().filter(|id| !found.contains_key(id)).count();
    assert_eq!(missed, 0, "{what}: jobs are missing, and nothing is lost");
    report.lost
}

#[test]
fn whatever_is_cut_off_a_store_is_noticed_when_it_is_opened_and_named_when_it_is_salvaged() {
    let mut rng = Rng::new(8);
    let (mut tally, mut named) = (Tally::default(), 0);
    let stores = [
        (store(true), true),
        (store(false), false),
        (young_store(true), true),
        (young_store(false), false),
    ];
    for ((disk, shown), closed) in &stores {
        assert_eq!(salvage_cut(disk, shown, "a whole store"), [""; 0]);
        let names = disk.list().expect("names");
        let last = names.iter().filter(|name| name.ends_with(".log")).max();
        // What lies in sealed segments and their indexes is the same however the store ended.
        let differs = |name: &&String| *closed || Some(*name) == last || !name.contains('.');
        for name in names.iter().filter(differs) {
            for len in cuts(disk, name, &mut rng) {
                let what = format!("{name} cut to {len:?}");
                let image = cut(disk, name, len);
                tally.look(&image, shown, &what);
                let lost = salvage_cut(&image, shown, &what);
                named += u32::from(!lost.is_empty());
            }
        }
    }
    println!("{tally:?}, {named} named by a salvage");
    assert!(tally.refused > 0 && named > 0, "{tally:?}");
}

#[test]
fn a_store_without_its_mark_is_refused_and_a_salvage_says_that_its_end_may_be_lost() {
    let mut rng = Rng::new(9);
    for (disk, shown) in [
        store(true),
        store(false),
        young_store(true),
        young_store(false),
    ] {
        let logs = disk
            .list()
            .expect("names")
            .into_iter()
            .filter(|name| name.ends_with(".log"));
        let last = logs.max().expect("a segment");
        for gone in [None, Some(0), Some(23)] {
            let unmarked = cut(&disk, "mark", gone);
            for image in std::iter::once(unmarked.clone()).chain(
                cuts(&disk, &last, &mut rng)
                    .into_iter()
                    .filter(|len| len.is_some_and(|len| len > 64))
                    .map(|len| cut(&unmarked, &last, len)),
            ) {
                let Err(error) = open(&image) else {
                    panic!("a store without its mark was opened");
                };
                assert_eq!(error.code(), Code::Internal, "{error}");
                assert!(error.message().contains("file "), "{error}");
                let lost = salvage_cut(&image, &shown, "without its mark");
                assert!(
                    lost.iter().any(|lost| lost.contains("file mark")),
                    "{lost:?}"
                );
            }
        }
    }
}

#[test]
fn salvage_copies_everything_but_what_is_damaged() {
    let (disk, shown) = store(true);
    let whole = SimDisk::new();
    let report =
        salvage_disks(&disk, std::sync::Arc::new(whole.clone()), SEGMENT).expect("a salvage");
    assert_eq!(report.lost, Vec::<String>::new());
    let copied: u64 = report.copied.iter().map(|(_, jobs)| jobs).sum();
    let again = run(contents(&open(&whole).expect("a new store"))).expect("a whole store");
    assert_eq!(
        again.keys().collect::<Vec<_>>(),
        shown.keys().collect::<Vec<_>>()
    );
    assert!(copied >= shown.len() as u64);

    // In the middle of the first segment there is a job that will be missed.
    let name = "0000000001.log";
    let image = disk.kill();
    image
        .damage(name, |content| content[20_000..20_100].fill(7))
        .expect("a segment");
    let rest = SimDisk::new();
    let report =
        salvage_disks(&image, std::sync::Arc::new(rest.clone()), SEGMENT).expect("a salvage");
    assert!(
        report.lost.iter().any(|lost| lost.contains(name)),
        "{:?}",
        report.lost
    );
    let found = run(contents(&open(&rest).expect("a new store"))).expect("a whole store");
    for (id, (payload, _)) in &found {
        // A job whose newer record was damaged comes back as it was before; its payload is its own.
        assert!(
            shown
                .get(id)
                .is_none_or(|(bytes, _)| bytes == payload || bytes.is_empty()),
            "job {id}"
        );
    }
    let missed = shown.keys().filter(|id| !found.contains_key(id)).count();
    assert!(missed <= 5, "{missed} jobs are missing for a hundred bytes");
}

/// A checkpoint that checks out and says of a lease, by its place in the list of them, that its job lies elsewhere.
fn misplaced(change: impl Fn(&mut [u8])) -> SimDisk {
    let (disk, shown) = store(true);
    let (version, mut body) = snapshot::read(&disk, "checkpoint")
        .expect("a whole file")
        .expect("a checkpoint");
    let (leased, _) = shown
        .iter()
        .find(|(_, (_, state))| *state == State::Leased)
        .expect("a lease");
    // The id of a job, and then where its record is: the number of a segment that is there.
    let is_lease = |at: &usize| {
        let there = disk.list().expect("names");
        let number = u32::from_le_bytes(body[at + 8..at + 12].try_into().expect("four bytes"));
        body[*at..].starts_with(&leased.0.to_le_bytes())
            && there.contains(&format!("{number:010}.log"))
    };
    let at = (0..body.len() - 12).find(is_lease).expect("its entry");
    change(&mut body[at + 8..]);
    snapshot::write(&disk, "checkpoint", version, &body).expect("a file");
    disk
}

#[test]
fn a_checkpoint_whose_leases_are_of_no_record_is_refused() {
    let elsewhere = [
        misplaced(|place| place[..4].copy_from_slice(&77_u32.to_le_bytes())),
        misplaced(|place| place[4..8].copy_from_slice(&u32::MAX.to_le_bytes())),
    ];
    for disk in elsewhere {
        let Err(error) = open(&disk) else {
            panic!("it was opened");
        };
        assert_eq!(error.code(), Code::Internal);
        assert!(error.message().contains("file checkpoint"), "{error}");
    }
    let whole = misplaced(|_| {});
    assert!(open(&whole).is_ok());
}

#[test]
fn a_checkpoint_that_goes_on_behind_the_end_of_its_segment_is_refused() {
    let (disk, _) = store(true);
    let (version, mut body) = snapshot::read(&disk, "checkpoint")
        .expect("a whole file")
        .expect("a checkpoint");
    body[4..8].copy_from_slice(&(1_u32 << 30).to_le_bytes());
    snapshot::write(&disk, "checkpoint", version, &body).expect("a file");
    let Err(error) = open(&disk) else {
        panic!("it was opened");
    };
    assert!(error.message().contains("the file ends here"), "{error}");
}

/// What is current in a segment is a number that only upkeep looks at: a store must not fail by it.
#[test]
fn a_checkpoint_that_has_more_current_bytes_than_a_segment_is_used_all_the_same() {
    let (disk, shown) = store(true);
    let (version, mut body) = snapshot::read(&disk, "checkpoint")
        .expect("a whole file")
        .expect("a checkpoint");
    let u32_at = |body: &[u8], at: usize| {
        u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"))
    };
    let names = disk.list().expect("names");
    let logs = names.iter().filter_map(|name| name.strip_suffix(".log"));
    let mut changed = 0;
    for number in logs.map(|name| name.parse::<u32>().expect("a number")) {
        // The number of a segment, its length, how many records, the current bytes (eight of them), how many salts: one, from
        // the beginning on.
        let is_segment = |at: &usize| {
            u32_at(&body, *at) == number
                && u32_at(&body, at + 16) == 0
                && u32_at(&body, at + 20) == 1
                && u32_at(&body, at + 24) == 0
        };
        let places: Vec<usize> = (0..body.len() - 28).filter(is_segment).collect();
        for at in places {
            body[at + 12..at + 20].copy_from_slice(&u64::MAX.to_le_bytes());
            changed += 1;
        }
    }
    assert!(changed > 1, "{changed} segments found");
    snapshot::write(&disk, "checkpoint", version, &body).expect("a file");
    let engine = open(&disk).expect("it can be used");
    run(async {
        let job = NewJob {
            queue: QueueName::new("q").expect("a name"),
            spec: JobSpec::default(),
        };
        let pushed = engine.push(vec![job]).await.expect("an answer");
        assert!(pushed[0].is_ok(), "{pushed:?}");
        let now = contents(&engine).await.expect("a whole store");
        assert_eq!(now.len(), shown.len() + 1);
    });
}
