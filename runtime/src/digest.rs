//! SHA-256, the one digest of the journal, the ledger and the keys.

use sha2::{Digest, Sha256};

/// Lower-case hexadecimal SHA-256 of `bytes`.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 0xf));
    }
    text
}

/// A digest over bytes that come in pieces.
#[derive(Clone, Default)]
pub(crate) struct RunningDigest(Sha256);

impl RunningDigest {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn hex(&self) -> String {
        hex(&self.0.clone().finalize())
    }
}

impl PartialEq for RunningDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.clone().finalize() == other.0.clone().finalize()
    }
}

impl Eq for RunningDigest {}

/// The payload fingerprint of a mutating call: SHA-256 of canonical JSON (sorted keys at every depth) of the method, the
/// session and the fields (rule 5.10.1).
pub fn fingerprint(method: &str, session: &str, fields: &serde_json::Value) -> String {
    let mut out = b"{\"fields\":".to_vec();
    canonical(fields, &mut out);
    out.extend_from_slice(b",\"method\":");
    scalar(method, &mut out);
    out.extend_from_slice(b",\"sessionId\":");
    scalar(session, &mut out);
    out.push(b'}');
    sha256_hex(&out)
}

fn canonical(value: &serde_json::Value, out: &mut Vec<u8>) {
    match value {
        serde_json::Value::Object(map) => {
            let mut sorted: Vec<_> = map.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            for (i, (key, value)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                scalar(key, out);
                out.push(b':');
                canonical(value, out);
            }
            out.push(b'}');
        }
        serde_json::Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                canonical(item, out);
            }
            out.push(b']');
        }
        value => scalar(value, out),
    }
}

fn scalar(value: &(impl serde::Serialize + ?Sized), out: &mut Vec<u8>) {
    // Neither a scalar nor the memory it is written to can fail.
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_fingerprint_ignores_the_order_of_keys_and_nothing_else() {
        let a = fingerprint("send", "s", &json!({"a": 1, "b": {"c": 2, "d": 3}}));
        let b = fingerprint("send", "s", &json!({"b": {"d": 3, "c": 2}, "a": 1}));
        assert_eq!(a, b);
        assert_ne!(a, fingerprint("send", "s", &json!({"a": 1, "b": {"c": 2, "d": 4}})));
        assert_ne!(a, fingerprint("send", "t", &json!({"a": 1, "b": {"c": 2, "d": 3}})));
    }
}
