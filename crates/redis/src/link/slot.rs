//! Which of a cluster's slots a key is in.

/// How many slots there are.
pub(super) const SLOTS: usize = 16384;

/// The slot of a key: of what stands between its first braces, if there is anything, else of the whole.
pub(super) fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS as u16
}

fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else {
        return key;
    };
    let inside = &key[open + 1..];
    match inside.iter().position(|byte| *byte == b'}') {
        Some(length) if length > 0 => &inside[..length],
        _ => key,
    }
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0_u16;
    for byte in bytes {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
        }
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    // As `CLUSTER KEYSLOT` answers.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        for (key, expected) in [
            ("foo", 12182),
            ("bar", 5061),
            ("auxo{0}:meta", 13907),
            ("{foo}:x", 12182),
            ("x{foo}y{bar}", 12182),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("", 0),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }
}
