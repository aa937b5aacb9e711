use std::collections::BTreeSet;

use super::*;

fn synced(disk: &SimDisk, name: &str, bytes: &[u8]) -> Arc<dyn DiskFile> {
    let file = disk.create(name).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    disk.sync_dir().unwrap();
    file
}

/// What the seeds 0..1000 make of the file.
fn outcomes(disk: &SimDisk, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..1000)
        .map(|seed| disk.crash(seed).content(name))
        .collect()
}

#[test]
fn what_was_written_is_read_and_a_read_is_short_only_at_the_end() {
    let disk = SimDisk::new();
    let file = synced(&disk, "f", b"hello");
    let mut buf = [9; 4];
    assert_eq!(file.read_at(3, &mut buf).unwrap(), 2);
    assert_eq!(&buf, b"lo\x09\x09");
    assert_eq!(file.read_at(7, &mut buf).unwrap(), 0);
    assert_eq!(disk.open("f").unwrap().len().unwrap(), 5);
    assert_eq!(
        disk.open("g").err().unwrap().kind(),
        io::ErrorKind::NotFound
    );
}

#[test]
fn synced_bytes_under_a_synced_name_survive_every_crash() {
    let disk = SimDisk::new();
    synced(&disk, "f", b"safe");
    assert_eq!(outcomes(&disk, "f"), [Some(b"safe".to_vec())].into());
    assert_eq!(disk.crash_losing_all().content("f").unwrap(), b"safe");
}

#[test]
fn unsynced_writes_survive_in_every_combination() {
    let disk = SimDisk::new();
    let file = synced(&disk, "f", b"..");
    file.write_at(0, b"a").unwrap();
    file.write_at(1, b"b").unwrap();
    let all = [b"..", b"a.", b".b", b"ab"].map(|c| Some(c.to_vec()));
    assert_eq!(outcomes(&disk, "f"), all.into());
    assert_eq!(disk.crash_losing_all().content("f").unwrap(), b"..");
}

#[test]
fn a_write_is_torn_between_sectors_and_never_within() {
    let disk = SimDisk::new();
    let file = synced(&disk, "f", &[0; 1536]);
    file.write_at(100, &[1; 1300]).unwrap();
    let mut patterns = BTreeSet::new();
    for content in outcomes(&disk, "f").into_iter().flatten() {
        let sectors = [
            &content[100..512],
            &content[512..1024],
            &content[1024..1400],
        ];
        assert!(
            content[..100]
                .iter()
                .chain(&content[1400..])
                .all(|&b| b == 0)
        );
        patterns.insert(sectors.map(|sector| {
            assert!(sector.iter().all(|&b| b == sector[0]), "torn in a sector");
            sector[0]
        }));
    }
    assert_eq!(patterns.len(), 8, "{patterns:?}");
}

#[test]
fn a_new_length_survives_with_or_without_the_bytes() {
    let disk = SimDisk::new();
    let file = synced(&disk, "f", b"");
    file.write_at(0, b"xy").unwrap();
    let all = [&b""[..], b"\0\0", b"xy"].map(|c| Some(c.to_vec()));
    assert_eq!(outcomes(&disk, "f"), all.into());
    file.sync().unwrap();
    file.allocate(3).unwrap();
    let all = [&b"xy"[..], b"xy\0"].map(|c| Some(c.to_vec()));
    assert_eq!(outcomes(&disk, "f"), all.into());
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    let disk = SimDisk::new();
    let file = synced(&disk, "f", &[0; 8192]);
    for at in 0..16 {
        file.write_at(at * 500, &[at as u8 + 1; 700]).unwrap();
    }
    assert_eq!(disk.crash(7).content("f"), disk.crash(7).content("f"));
    assert!(outcomes(&disk, "f").len() > 50);
}

#[test]
fn a_new_name_is_volatile_until_the_directory_is_synced() {
    let disk = SimDisk::new();
    let file = disk.create("f").unwrap();
    file.write_at(0, b"x").unwrap();
    file.sync().unwrap();
    assert_eq!(outcomes(&disk, "f"), [None, Some(b"x".to_vec())].into());
    disk.sync_dir().unwrap();
    assert_eq!(outcomes(&disk, "f"), [Some(b"x".to_vec())].into());
}

#[test]
fn a_rename_survives_wholly_or_not_at_all() {
    let disk = SimDisk::new();
    synced(&disk, "a", b"new");
    synced(&disk, "b", b"old");
    disk.rename("a", "b").unwrap();
    let both: BTreeSet<_> = (0..100)
        .map(|seed| disk.crash(seed))
        .map(|disk| (disk.content("a"), disk.content("b")))
        .collect();
    let (old, new) = (b"old".to_vec(), b"new".to_vec());
    let before = (Some(new.clone()), Some(old));
    assert_eq!(both, [before, (None, Some(new))].into());
}

#[test]
fn a_removal_is_volatile_until_the_directory_is_synced() {
    let disk = SimDisk::new();
    synced(&disk, "f", b"x");
    disk.remove("f").unwrap();
    assert!(disk.list().unwrap().is_empty());
    assert_eq!(outcomes(&disk, "f"), [None, Some(b"x".to_vec())].into());
    disk.sync_dir().unwrap();
    assert_eq!(outcomes(&disk, "f"), [None].into());
}

#[test]
fn creating_over_a_file_leaves_its_readers_the_old_content() {
    let disk = SimDisk::new();
    let old = synced(&disk, "f", b"old");
    let new = disk.create("f").unwrap();
    assert_eq!((old.len().unwrap(), new.len().unwrap()), (3, 0));
    let all = [None, Some(vec![]), Some(b"old".to_vec())];
    assert_eq!(outcomes(&disk, "f"), all.into());
}

#[test]
fn after_a_kill_everything_is_there_but_no_safer() {
    let disk = SimDisk::new();
    let file = synced(&disk, "f", b"..");
    file.write_at(0, b"a").unwrap();
    disk.create("g").unwrap();
    let next = disk.kill();
    file.write_at(1, b"b").unwrap();
    assert_eq!(next.list().unwrap(), ["f", "g"]);
    assert_eq!(next.content("f").unwrap(), b"a.", "an image stands alone");
    assert_eq!(next.crash_losing_all().list().unwrap(), ["f"]);
    assert_eq!(next.crash_losing_all().content("f").unwrap(), b"..");
    next.open("f").unwrap().sync().unwrap();
    assert_eq!(next.crash_losing_all().content("f").unwrap(), b"a.");
}

#[test]
fn a_chosen_operation_fails_once_with_the_chosen_error() {
    let disk = SimDisk::new();
    let file = synced(&disk, "f", b"");
    disk.fail(Op::Write, 2, io::ErrorKind::TimedOut);
    disk.fail(Op::Read, 1, io::ErrorKind::InvalidData);
    disk.fail(Op::SyncDir, 1, io::ErrorKind::Other);
    file.write_at(0, b"1").unwrap();
    let error = file.write_at(0, b"2").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    file.write_at(0, b"3").unwrap();
    let error = file.read_at(0, &mut [0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(disk.sync_dir().is_err());
    disk.sync_dir().unwrap();
}

#[test]
fn a_failed_write_leaves_a_part() {
    let mut parts = BTreeSet::new();
    for earlier in 0..20 {
        let disk = SimDisk::new();
        let file = synced(&disk, "f", b"");
        for _ in 0..earlier {
            disk.sync_dir().unwrap();
        }
        disk.fail(Op::Write, 1, io::ErrorKind::Other);
        file.write_at(0, b"abc").unwrap_err();
        let content = disk.content("f").unwrap();
        assert!(b"abc".starts_with(&content));
        parts.insert(content);
    }
    assert_eq!(parts.len(), 4, "{parts:?}");
}

#[test]
fn a_sync_after_a_failed_one_does_not_save_the_earlier_writes() {
    let disk = SimDisk::new();
    let file = synced(&disk, "f", b"..");
    file.write_at(0, b"a").unwrap();
    disk.fail(Op::Sync, 1, io::ErrorKind::Other);
    file.sync().unwrap_err();
    file.write_at(1, b"b").unwrap();
    file.sync().unwrap();
    assert_eq!(disk.content("f").unwrap(), b"ab");
    assert_eq!(disk.crash_losing_all().content("f").unwrap(), b".b");
}

#[test]
fn a_full_disk_refuses_growth_and_nothing_else() {
    let disk = SimDisk::new();
    let file = synced(&disk, "f", b"12345");
    synced(&disk, "g", b"123");
    disk.set_capacity(Some(10));
    let error = file.allocate(8).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 5);
    let error = file.write_at(4, b"abcd").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(
        disk.content("f").unwrap(),
        b"1234abc",
        "what fits is written"
    );
    file.write_at(0, b"within").unwrap();
    disk.remove("g").unwrap();
    assert_eq!(disk.used(), 7);
    file.allocate(10).unwrap();
    disk.set_capacity(None);
    file.allocate(100).unwrap();
}

#[test]
fn damage_reaches_the_platter() {
    let disk = SimDisk::new();
    synced(&disk, "f", b"abc");
    disk.flip_bit("f", 1, 0).unwrap();
    assert_eq!(disk.crash_losing_all().content("f").unwrap(), b"acc");
    assert!(disk.flip_bit("f", 3, 0).is_err());
    disk.truncate("f", 2).unwrap();
    assert_eq!(disk.crash_losing_all().content("f").unwrap(), b"ac");
    disk.delete("f").unwrap();
    assert!(disk.crash_losing_all().list().unwrap().is_empty());
    assert!(disk.delete("f").is_err());
}

#[test]
fn the_power_goes_after_the_chosen_number_of_operations() {
    let disk = SimDisk::new();
    let file = synced(&disk, "f", b"0");
    disk.crash_at(2);
    file.write_at(0, b"1").unwrap();
    file.sync().unwrap();
    assert!(file.write_at(0, b"2").is_err());
    assert!(file.sync().is_err());
    assert!(file.read_at(0, &mut [0]).is_err());
    assert!(disk.create("g").is_err() && disk.open("f").is_err() && disk.list().is_err());
    assert_eq!(outcomes(&disk, "f"), [Some(b"1".to_vec())].into());
    disk.crash(1).create("g").unwrap();
}

#[test]
fn the_log_tells_every_change_in_order() {
    let disk = SimDisk::new();
    let file = synced(&disk, "f", b"abc");
    file.allocate(9).unwrap();
    disk.rename("f", "g").unwrap();
    disk.remove("g").unwrap();
    let log = disk.log();
    let ops: Vec<_> = log.iter().map(|operation| operation.op).collect();
    use Op::*;
    assert_eq!(
        ops,
        [Create, Write, Sync, SyncDir, Allocate, Rename, Remove]
    );
    assert_eq!(disk.operations(), 7);
    assert_eq!((&*log[1].file, log[1].offset, log[1].len), ("f", 0, 3));
}
