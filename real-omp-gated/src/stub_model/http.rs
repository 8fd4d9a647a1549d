//! As much of HTTP/1.1 as the stub needs, over any byte stream.
//!
//! Written out instead of taken from a framework because the scenarios need what frameworks hide: a
//! reset in the middle of a body, a body that stops, and noticing at once that the client has gone.

use std::io::{self, BufRead, Read, Write};

use thiserror::Error;

/// Request line and headers together.
pub const HEAD_BYTES_MAX: u64 = 64 * 1024;
/// An 8 MB prompt is a case agents are tested with; its request is a little larger.
pub const BODY_BYTES_MAX: u64 = 32 * 1024 * 1024;

const _: () = assert!(HEAD_BYTES_MAX < BODY_BYTES_MAX, "a head is the smaller part of a request");

/// A request, read whole.
#[derive(Debug)]
pub struct Request {
    /// `GET`, `POST`, ...
    pub method: String,
    /// The target as sent, query included.
    pub target: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Why a request could not be read.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Connection(#[from] io::Error),
    /// The body is compressed, or larger than [`BODY_BYTES_MAX`], or the head than
    /// [`HEAD_BYTES_MAX`], or neither is HTTP; the status says which.
    #[error("the request is answered with status {0}")]
    Refused(u16),
}

impl Request {
    /// Reads the next request of a connection; `None` when the client closed it between requests.
    ///
    /// # Errors
    /// The connection failed, or the request is refused.
    pub fn read(connection: &mut impl BufRead) -> Result<Option<Self>, RequestError> {
        let mut head = connection.by_ref().take(HEAD_BYTES_MAX);
        let Some(start) = line(&mut head)? else { return Ok(None) };
        let mut words = start.split(' ');
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(RequestError::Refused(400));
        };
        let framing = Framing::read(&mut head)?;
        let body = match framing {
            Framing::Length(bytes) if bytes > BODY_BYTES_MAX => {
                return Err(RequestError::Refused(413));
            }
            Framing::Length(bytes) => exactly(connection, bytes)?,
            Framing::Chunked => chunks(connection)?,
        };
        Ok(Some(Self { method: method.to_owned(), target: target.to_owned(), body }))
    }
}

/// How the end of a body is found.
enum Framing {
    Chunked,
    Length(u64),
}

impl Framing {
    fn read(head: &mut impl BufRead) -> Result<Self, RequestError> {
        let mut framing = Self::Length(0);
        loop {
            let header = line(head)?.ok_or(RequestError::Refused(431))?;
            if header.is_empty() {
                return Ok(framing);
            }
            let (name, value) = header.split_once(':').ok_or(RequestError::Refused(400))?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-encoding" if value != "identity" => {
                    return Err(RequestError::Refused(415));
                }
                "content-length" => {
                    let bytes = value.parse().map_err(|_| RequestError::Refused(400))?;
                    framing = Self::Length(bytes);
                }
                "transfer-encoding" => framing = Self::Chunked,
                _ => {}
            }
        }
    }
}

/// One line without its end; `None` at the end of the stream, or of what the limit leaves of it.
fn line(from: &mut impl BufRead) -> Result<Option<String>, RequestError> {
    let mut bytes = Vec::new();
    from.read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    String::from_utf8(bytes).map(Some).map_err(|_| RequestError::Refused(400))
}

fn exactly(connection: &mut impl BufRead, bytes: u64) -> Result<Vec<u8>, RequestError> {
    let mut body = Vec::new();
    // `take` and not a buffer of the announced size: what a client announces is not what it sends.
    let read = connection.by_ref().take(bytes).read_to_end(&mut body)?;
    if read as u64 == bytes { Ok(body) } else { Err(RequestError::Refused(400)) }
}

fn chunks(connection: &mut impl BufRead) -> Result<Vec<u8>, RequestError> {
    let mut body = Vec::new();
    loop {
        let size = line(&mut connection.by_ref().take(HEAD_BYTES_MAX))?.unwrap_or_default();
        let digits = size.split(';').next().unwrap_or_default().trim();
        let bytes = u64::from_str_radix(digits, 16).map_err(|_| RequestError::Refused(400))?;
        if bytes > BODY_BYTES_MAX - body.len() as u64 {
            return Err(RequestError::Refused(413));
        }
        body.extend(exactly(connection, bytes)?);
        // The line feed after a chunk, or the empty line after the last one; trailers are nobody's
        // habit.
        line(&mut connection.by_ref().take(HEAD_BYTES_MAX))?;
        if bytes == 0 {
            return Ok(body);
        }
    }
}

/// Writes an answer of known length.
///
/// # Errors
/// The client is gone.
pub fn write_whole(
    to: &mut impl Write,
    status: u16,
    headers: &[(&str, String)],
    body: &str,
) -> io::Result<()> {
    let mut answer = format!("HTTP/1.1 {status} stub\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        answer.push_str(&format!("{name}: {value}\r\n"));
    }
    answer.push_str("\r\n");
    answer.push_str(body);
    to.write_all(answer.as_bytes())?;
    to.flush()
}

/// Begins an event stream.
///
/// # Errors
/// The client is gone.
pub fn write_stream_head(to: &mut impl Write) -> io::Result<()> {
    let head = "HTTP/1.1 200 stub\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
                transfer-encoding: chunked\r\n\r\n";
    to.write_all(head.as_bytes())?;
    to.flush()
}

/// Writes one piece of an event stream; an empty piece ends it.
///
/// # Errors
/// The client is gone.
pub fn write_chunk(to: &mut impl Write, piece: &str) -> io::Result<()> {
    to.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes())?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<Request>, RequestError> {
        Request::read(&mut &bytes[..])
    }

    fn refusal(bytes: &[u8]) -> u16 {
        match read(bytes) {
            Err(RequestError::Refused(status)) => status,
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn a_body_ends_by_length_or_by_chunks() {
        let fixed = read(b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcd").unwrap().unwrap();
        assert_eq!(
            (fixed.method.as_str(), fixed.target.as_str(), &fixed.body[..]),
            ("POST", "/a", &b"abc"[..])
        );
        let chunked = b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
            2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n";
        assert_eq!(read(chunked).unwrap().unwrap().body, b"abc");
    }

    #[test]
    fn two_requests_follow_each_other_on_one_connection() {
        let mut bytes = &b"GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n"[..];
        let mut target = || Request::read(&mut bytes).unwrap().map(|request| request.target);
        assert_eq!(target().as_deref(), Some("/a"));
        assert_eq!(target().as_deref(), Some("/b"));
        assert_eq!(target(), None);
    }

    #[test]
    fn what_is_not_http_is_refused() {
        assert_eq!(refusal(b"hello\r\n\r\n"), 400);
        assert_eq!(refusal(b"POST /a HTTP/1.1\r\ncontent-length: 5\r\n\r\nab"), 400);
        assert_eq!(refusal(b"POST /a HTTP/1.1\r\ncontent-encoding: zstd\r\n\r\n"), 415);
    }

    #[test]
    fn head_and_body_have_limits() {
        let long = "x".repeat(usize::try_from(HEAD_BYTES_MAX).unwrap());
        assert_eq!(refusal(format!("GET /a HTTP/1.1\r\nlong: {long}\r\n\r\n").as_bytes()), 431);
        let announced = BODY_BYTES_MAX + 1;
        assert_eq!(
            refusal(format!("POST /a HTTP/1.1\r\ncontent-length: {announced}\r\n\r\n").as_bytes()),
            413
        );
        let chunked =
            format!("POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{announced:x}\r\n");
        assert_eq!(refusal(chunked.as_bytes()), 413);
    }
}
