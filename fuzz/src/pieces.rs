//! Bytes that arrive in pieces.

/// Cuts bytes into pieces of these lengths, over and over; zero counts as 256, so that there is an end. Without any length they
/// are cut into single bytes.
pub fn pieces<'a>(mut bytes: &'a [u8], cuts: &[u8]) -> Vec<&'a [u8]> {
    let cuts = if cuts.is_empty() { &[1] } else { cuts };
    let mut pieces = Vec::new();
    for cut in cuts.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let length = if *cut == 0 { 256 } else { usize::from(*cut) };
        let (piece, rest) = bytes.split_at(length.min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}
