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
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
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
    let mut out = String::from("{\"fields\":");
    canonical(fields, &mut out);
    out.push_str(",\"method\":");
    canonical(&serde_json::Value::from(method), &mut out);
    out.push_str(",\"sessionId\":");
    canonical(&serde_json::Value::from(session), &mut out);
    out.push('}');
    sha256_hex(out.as_bytes())
}

fn canonical(value: &serde_json::Value, out: &mut String) {
    match value {
        serde_json::Value::Object(map) => {
            let sorted: std::collections::BTreeMap<_, _> = map.iter().collect();
            out.push('{');
            for (i, (key, value)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&serde_json::Value::from(key.as_str()).to_string());
                out.push(':');
                canonical(value, out);
            }
            out.push('}');
        }
        serde_json::Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
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
