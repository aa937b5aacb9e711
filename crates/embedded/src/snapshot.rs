//! A file that is written and read as one piece, under one checksum. Layout: docs/FORMAT.md, "Snapshot files".

use std::io;

use crate::damage::Trouble;
use crate::disk::{self, Disk};

const MAGIC: &[u8; 8] = b"AUXOSNAP";
const HEADER: usize = 24;

/// Writes the file in the place of an earlier one. On return the new one is safe; after a crash at any moment before
/// that the old or the new one is there.
pub fn write(disk: &dyn Disk, name: &str, version: u32, body: &[u8]) -> io::Result<()> {
    let header = header(version, body);
    disk::replace(disk, name, |file| {
        file.write_at(0, &header)?;
        file.write_at(HEADER as u64, body)
    })
}

/// Reads version and body; `None` if there is no such file.
pub fn read(disk: &dyn Disk, name: &str) -> Result<Option<(u32, Vec<u8>)>, Trouble> {
    let file = match disk.open(name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Trouble::io(name, error)),
    };
    let len = file.len().map_err(|error| Trouble::io(name, error))?;
    let mut found = [0; HEADER];
    disk::read_exact_at(&*file, name, 0, &mut found)?;
    if &found[..8] != MAGIC {
        return Err(Trouble::damaged(name, 0, "not a snapshot file"));
    }
    // The file's own length decides how much to read: a damaged length field must not ask for memory.
    let mut body = vec![0; (len as usize).saturating_sub(HEADER)];
    disk::read_exact_at(&*file, name, HEADER as u64, &mut body)?;
    let version = u32::from_le_bytes([found[8], found[9], found[10], found[11]]);
    if found != header(version, &body) {
        let what = format!("length or checksum of the {len} bytes does not match");
        return Err(Trouble::damaged(name, 0, what));
    }
    Ok(Some((version, body)))
}

fn header(version: u32, body: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&version.to_le_bytes());
    header[12..20].copy_from_slice(&(body.len() as u64).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..20]), body);
    header[20..].copy_from_slice(&crc.to_le_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SimDisk;
    use crate::disk::sim::{Op, Rng};

    fn with(body: &[u8]) -> SimDisk {
        let disk = SimDisk::new();
        write(&disk, "s", 3, body).unwrap();
        disk
    }

    #[test]
    fn what_was_written_is_read() {
        for body in [&b""[..], b"body", &[7; 100_000]] {
            assert_eq!(read(&with(body), "s").unwrap(), Some((3, body.to_vec())));
        }
        assert_eq!(read(&with(b"x"), "t").unwrap(), None);
    }

    #[test]
    fn after_a_crash_at_any_moment_the_old_or_the_new_one_is_there() {
        let mut seen = [0; 2];
        for stop in 0..8 {
            for seed in 0..50 {
                let disk = with(&[1; 3000]);
                disk.crash_at(stop);
                let done = write(&disk, "s", 4, &[2; 4000]).is_ok();
                let (version, body) = read(&disk.crash(seed), "s").unwrap().unwrap();
                let new = version == 4;
                assert_eq!(body, if new { vec![2; 4000] } else { vec![1; 3000] });
                assert!(new || !done);
                seen[usize::from(new)] += 1;
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let disk = with(&[0xa5; 1000]);
        for byte in 0..1024 {
            for bit in 0..8 {
                disk.flip_bit("s", byte, bit).unwrap();
                let trouble = read(&disk, "s").unwrap_err();
                assert!(trouble.is_damage() && trouble.file() == "s");
                disk.flip_bit("s", byte, bit).unwrap();
            }
        }
    }

    #[test]
    fn a_file_that_is_too_short_or_too_long_is_damaged() {
        let whole = with(&[1; 500]).content("s").unwrap();
        for len in 0..whole.len() {
            let disk = with(&[1; 500]);
            disk.truncate("s", len as u64).unwrap();
            assert!(read(&disk, "s").unwrap_err().is_damage());
        }
        let disk = with(&[1; 500]);
        disk.damage("s", |bytes| bytes.push(0)).unwrap();
        assert!(read(&disk, "s").unwrap_err().is_damage());
    }

    #[test]
    fn arbitrary_bytes_are_damage_and_no_panic() {
        let mut rng = Rng::new(1);
        for round in 0..2000 {
            let disk = with(b"");
            let bytes: Vec<u8> = (0..rng.below(80)).map(|_| rng.bits() as u8).collect();
            disk.damage("s", |file| {
                file.truncate(if round % 2 == 0 { 8 } else { 0 });
                file.extend(bytes);
            })
            .unwrap();
            assert!(read(&disk, "s").unwrap_err().is_damage());
        }
    }

    #[test]
    fn an_unreadable_file_is_not_called_damaged() {
        let disk = with(b"body");
        disk.fail(Op::Read, 2, io::ErrorKind::Other);
        assert!(!read(&disk, "s").unwrap_err().is_damage());
    }
}
