//! Replies into bytes.

use auxo_core::QueueName;
use bytes::{BufMut, Bytes, BytesMut};

/// What a client is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The job was kept.
    Inserted(u64),
    /// A job for the worker.
    Reserved(u64, Bytes),
    /// A job to look at.
    Found(u64, Bytes),
    /// There is no such job or tube, or it cannot make this move.
    NotFound,
    /// The worker holds a job whose time is nearly over, and nothing is ready.
    DeadlineSoon,
    /// Nothing became ready in time.
    TimedOut,
    /// The job is gone.
    Deleted,
    /// The job is back in its tube.
    Released,
    /// The job is put aside.
    Buried,
    /// The worker has its whole time again.
    Touched,
    /// The job is ready.
    Kicked,
    /// So many jobs are ready now.
    KickedMany(u64),
    /// The tube in use.
    Using(QueueName),
    /// How many tubes are watched.
    Watching(usize),
    /// The last tube cannot be ignored.
    NotIgnored,
    /// The tube is paused.
    Paused,
    /// Statistics or a list, in YAML.
    Data(String),
    /// No jobs are taken in.
    Draining,
    /// The job is over the limit.
    JobTooBig,
    /// The body is not followed by CR LF.
    ExpectedCrlf,
    /// The line is not as it should be.
    BadFormat,
    /// There is no such command.
    UnknownCommand,
    /// There is no room.
    OutOfMemory,
    /// Something else went wrong.
    InternalError,
}

impl Reply {
    /// Writes it.
    ///
    /// ```
    /// use auxo_wire::beanstalk::Reply;
    /// let mut bytes = bytes::BytesMut::new();
    /// Reply::Reserved(7, "hello".into()).encode(&mut bytes);
    /// Reply::Deleted.encode(&mut bytes);
    /// assert_eq!(bytes, "RESERVED 7 5\r\nhello\r\nDELETED\r\n");
    /// ```
    pub fn encode(&self, buf: &mut BytesMut) {
        let word = match self {
            Reply::Inserted(id) => return line(buf, "INSERTED ", *id),
            Reply::Reserved(id, body) => return job(buf, "RESERVED ", *id, body),
            Reply::Found(id, body) => return job(buf, "FOUND ", *id, body),
            Reply::KickedMany(count) => return line(buf, "KICKED ", *count),
            Reply::Watching(count) => return line(buf, "WATCHING ", *count as u64),
            Reply::Using(tube) => {
                buf.put_slice(b"USING ");
                buf.put_slice(tube.as_str().as_bytes());
                "\r\n"
            }
            Reply::Data(text) => {
                buf.put_slice(b"OK ");
                number(buf, text.len() as u64);
                buf.put_slice(b"\r\n");
                buf.put_slice(text.as_bytes());
                "\r\n"
            }
            Reply::NotFound => "NOT_FOUND\r\n",
            Reply::DeadlineSoon => "DEADLINE_SOON\r\n",
            Reply::TimedOut => "TIMED_OUT\r\n",
            Reply::Deleted => "DELETED\r\n",
            Reply::Released => "RELEASED\r\n",
            Reply::Buried => "BURIED\r\n",
            Reply::Touched => "TOUCHED\r\n",
            Reply::Kicked => "KICKED\r\n",
            Reply::NotIgnored => "NOT_IGNORED\r\n",
            Reply::Paused => "PAUSED\r\n",
            Reply::Draining => "DRAINING\r\n",
            Reply::JobTooBig => "JOB_TOO_BIG\r\n",
            Reply::ExpectedCrlf => "EXPECTED_CRLF\r\n",
            Reply::BadFormat => "BAD_FORMAT\r\n",
            Reply::UnknownCommand => "UNKNOWN_COMMAND\r\n",
            Reply::OutOfMemory => "OUT_OF_MEMORY\r\n",
            Reply::InternalError => "INTERNAL_ERROR\r\n",
        };
        buf.put_slice(word.as_bytes());
    }
}

fn line(buf: &mut BytesMut, word: &str, value: u64) {
    buf.put_slice(word.as_bytes());
    number(buf, value);
    buf.put_slice(b"\r\n");
}

fn job(buf: &mut BytesMut, word: &str, id: u64, body: &[u8]) {
    buf.put_slice(word.as_bytes());
    number(buf, id);
    line(buf, " ", body.len() as u64);
    buf.put_slice(body);
    buf.put_slice(b"\r\n");
}

/// Writes a number in decimal. The formatting of the standard library takes several times as long, and there is a number in
/// nearly every reply.
fn number(buf: &mut BytesMut, mut value: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    buf.put_slice(&digits[first..]);
}
