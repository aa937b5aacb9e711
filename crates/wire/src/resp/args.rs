//! The arguments of one request, still in the bytes that they came in.

use bytes::Bytes;

/// The name of a command, and what it is given.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    frame: &'a Bytes,
    places: &'a [Place],
}

/// Where an argument begins and ends.
pub type Place = (usize, usize);

impl<'a> Args<'a> {
    /// The arguments at these places of a request.
    pub fn new(frame: &'a Bytes, places: &'a [Place]) -> Args<'a> {
        Args { frame, places }
    }

    /// How many there are, the name included.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// One of them; none is as good as an empty one.
    pub fn get(&self, at: usize) -> &'a [u8] {
        let (begin, end) = self.places.get(at).copied().unwrap_or_default();
        &self.frame[begin..end]
    }

    /// One of them, to keep. It is not copied.
    pub fn bytes(&self, at: usize) -> Bytes {
        let (begin, end) = self.places.get(at).copied().unwrap_or_default();
        self.frame.slice(begin..end)
    }

    /// Whether it is this word.
    pub fn is(&self, at: usize, word: &str) -> bool {
        self.get(at).eq_ignore_ascii_case(word.as_bytes())
    }

    /// All from one on.
    pub fn from(&self, first: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let args = *self;
        (first..args.len()).map(move |at| args.get(at))
    }
}
