//! The digest of a saved cell: a hash of its text, in its first field.
//!
//! A saved cell that was edited or damaged may still be well-formed, and a plausible count is not
//! seen to be wrong. The digest finds any change. It is no signature: it does not find one that is
//! made on purpose.

use crate::experiment::hash::stable_hash;

/// What precedes the digest in a saved cell.
const BEFORE: &str = "{\"digest\":\"";
const AFTER: &str = "\",";

/// What the digest says of a saved cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Integrity {
    Intact,
    Changed,
    /// There is no digest.
    Unknown,
}

/// Adds the digest to the text of a JSON object. Panics if the text is no object, or an empty one.
pub(crate) fn seal(text: &str) -> String {
    let fields = text.strip_prefix('{').expect("a record is an object");
    assert!(!fields.starts_with('}'), "a record has fields");
    format!("{BEFORE}{}{AFTER}{fields}", stable_hash([fields]))
}

pub(crate) fn check(text: &str) -> Integrity {
    let sealed = text.strip_prefix(BEFORE).and_then(|rest| rest.split_once(AFTER));
    match sealed {
        None => Integrity::Unknown,
        Some((digest, fields)) if digest == stable_hash([fields]) => Integrity::Intact,
        Some(_) => Integrity::Changed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_is_found() {
        let sealed = seal(r#"{"a":12,"b":[3]}"#);
        assert!(sealed.starts_with(r#"{"digest":""#) && sealed.ends_with(r#"","a":12,"b":[3]}"#));
        assert_eq!(check(&sealed), Integrity::Intact);
        for at in 0..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at] ^= 1;
            let text = String::from_utf8(bytes).unwrap();
            assert_ne!(check(&text), Integrity::Intact, "byte {at}");
        }
        assert_eq!(check(r#"{"a":12}"#), Integrity::Unknown);
        assert_eq!(check(&sealed.replace("12", "13")), Integrity::Changed);
    }
}
