//! gRPC: messages out of fields of every kind, right and wrong, as bytes on a wire.

#![no_main]

use arbitrary::Arbitrary;
use auxo_fuzz::doc::Text;
use auxo_fuzz::grpc;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    which: u8,
    message: Value,
}

#[derive(Arbitrary, Debug)]
enum Value {
    Number(u64),
    Small(u8),
    Long(u64),
    Short(u32),
    Bytes(Vec<u8>),
    Text(Text),
    Message(Vec<(u8, Value)>),
    Packed(Vec<u64>),
    /// A length that is not the truth.
    Lie(u64, Vec<u8>),
}

impl Value {
    /// How it lies on the wire, and which of the protocol's kinds that is.
    fn wire(&self) -> (u8, Vec<u8>) {
        let mut bytes = Vec::new();
        let kind = match self {
            Value::Number(number) => varint(&mut bytes, *number),
            Value::Small(number) => varint(&mut bytes, (*number).into()),
            Value::Long(number) => {
                bytes.extend(number.to_le_bytes());
                1
            }
            Value::Short(number) => {
                bytes.extend(number.to_le_bytes());
                5
            }
            Value::Lie(length, content) => {
                varint(&mut bytes, *length);
                bytes.extend(content);
                2
            }
            other => {
                let content = other.content();
                varint(&mut bytes, content.len() as u64);
                bytes.extend(content);
                2
            }
        };
        (kind, bytes)
    }

    fn content(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Value::Bytes(content) => bytes.extend(content),
            Value::Text(text) => bytes.extend(text.text().bytes()),
            Value::Packed(numbers) => numbers.iter().for_each(|number| {
                varint(&mut bytes, *number);
            }),
            Value::Message(fields) => {
                for (field, value) in fields {
                    let (kind, wire) = value.wire();
                    // Messages here have up to thirty fields; one more is a field that nobody knows.
                    let field = u64::from(field % 32);
                    varint(&mut bytes, field << 3 | u64::from(kind));
                    bytes.extend(wire);
                }
            }
            _ => bytes = self.wire().1,
        }
        bytes
    }
}

/// Writes a number seven bits at a time; answers the kind that it has.
fn varint(bytes: &mut Vec<u8>, mut number: u64) -> u8 {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    0
}

fuzz_target!(|input: Input| grpc::check(input.which, &input.message.content()));
