//! Lazy panels: the charts of policies that are not shown initially, compressed, one block per
//! policy.
//!
//! Panels for dozens of policies would make the page several times larger and slow to open, though
//! a reader opens few of them. They are compressed (zlib, RFC 1950) and encoded in base64 (RFC
//! 4648); the script unpacks a block when the reader chooses its policy.

use maud::{Markup, PreEscaped, html};

/// The highest compression level: a page is written once and read often.
const LEVEL: u8 = 9;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A compressed block of HTML, which the script unpacks.
pub(super) fn packed(policy: usize, html: &str) -> Markup {
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(html.as_bytes(), LEVEL);
    html! {
        script type="application/zlib+base64" data-lazy=(policy) {
            (PreEscaped(base64(&packed)))
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            // Each missing byte turns one digit into padding.
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place > group.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_standard() {
        let vectors =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (plain, coded) in vectors {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn packed_html_unpacks_unchanged() {
        let html = "<p>✓</p>".repeat(100);
        let text = packed(7, &html).into_string();
        let coded = text.split_once('>').unwrap().1.split_once('<').unwrap().0;
        assert!(coded.len() < html.len() / 4);
        let digit = |c: u8| DIGITS.iter().position(|&digit| digit == c).unwrap_or(0) as u32;
        let bytes: Vec<u8> = coded
            .as_bytes()
            .chunks(4)
            .flat_map(|four| {
                let bits = four.iter().fold(0, |bits, &c| bits << 6 | digit(c));
                bits.to_be_bytes()[1..].to_vec()
            })
            .collect();
        let unpacked = miniz_oxide::inflate::decompress_to_vec_zlib(&bytes).unwrap();
        assert_eq!(unpacked, html.as_bytes());
    }
}
