//! Puts something of the same width in the place of what differs from run to run, so that tables keep their shape.

/// The ids seen so far.
#[derive(Default)]
pub struct Mask(Vec<String>);

impl Mask {
    pub fn apply(&mut self, text: &str) -> String {
        let mut masked = String::new();
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, from) = rest.split_at(start);
            masked += before;
            let (shown, length) = self.number(from);
            masked += &shown;
            rest = &from[length..];
        }
        masked + rest
    }

    /// What stands for the beginning of a text that begins with a digit, and how much of it.
    fn number(&mut self, text: &str) -> (String, usize) {
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let after = &text[digits..];
        if digits >= IDS && !text.starts_with('0') {
            let id = self.id(&text[..digits]);
            let (token, length) = token(after);
            (id + &token, digits + length)
        } else if digits == 4 && is_time(text) {
            ("2030-01-01T00:00:00.000Z".to_owned(), TIME)
        } else if digits == 1 && after.starts_with("s ago") {
            ("0".to_owned(), 1)
        } else {
            (text[..digits].to_owned(), digits)
        }
    }

    /// Ids in the order of their first mention.
    fn id(&mut self, id: &str) -> String {
        let known = self.0.iter().position(|known| known == id);
        let place = known.unwrap_or_else(|| {
            self.0.push(id.to_owned());
            self.0.len() - 1
        });
        format!("7{:014}", place + 1)
    }
}

/// Ids have 15 digits until 2033, and then 16.
const IDS: usize = 15;
const TIME: usize = "2030-01-01T00:00:00.000Z".len();

fn is_time(text: &str) -> bool {
    let shape = |(place, byte): (usize, &u8)| match place {
        4 | 7 => *byte == b'-',
        10 => *byte == b'T',
        13 | 16 => *byte == b':',
        19 => *byte == b'.',
        23 => *byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    text.len() >= TIME && text.as_bytes()[..TIME].iter().enumerate().all(shape)
}

/// What makes an id a token: `-COUNTER-NONCE`.
fn token(after: &str) -> (String, usize) {
    let mut parts = after.splitn(3, '-');
    let (Some(""), Some(counter), Some(nonce)) = (parts.next(), parts.next(), parts.next()) else {
        return (String::new(), 0);
    };
    let is_counter = !counter.is_empty() && counter.bytes().all(|b| b.is_ascii_digit());
    let is_nonce = nonce.len() >= 16 && nonce.as_bytes()[..16].iter().all(u8::is_ascii_hexdigit);
    match is_counter && is_nonce {
        true => ("-1-0123456789abcdef".to_owned(), counter.len() + 18),
        false => (String::new(), 0),
    }
}

#[test]
fn a_mask_hides_what_differs_and_nothing_else() {
    let mut mask = Mask::default();
    let text = "242112531406848-33-6dfc0781a389e9fd 242112531574784 at 2026-11-16T03:28:24.781Z (5s ago), 12 of 1h";
    let masked = "700000000000001-1-0123456789abcdef 700000000000002 at 2030-01-01T00:00:00.000Z (0s ago), 12 of 1h";
    assert_eq!(mask.apply(text), masked);
    assert_eq!(mask.apply("242112531406848"), "700000000000001");
}
