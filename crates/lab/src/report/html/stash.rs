//! What is not shown from the start, packed small: one parcel per policy.
//!
//! Panels for dozens of policies would make the page several times larger and slow to open, though
//! few are ever looked at. They are drawn all the same, deflated (zlib, RFC 1950) and written in
//! base64 (RFC 4648); the script unpacks a parcel when its policy is chosen.

use maud::{Markup, PreEscaped, html};

/// The smallest that zlib's levels reach: a page is made once and sent around.
const LEVEL: u8 = 9;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A parcel of HTML for the script.
pub(super) fn parcel(policy: usize, html: &str) -> Markup {
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(html.as_bytes(), LEVEL);
    html! {
        script type="application/zlib+base64" data-parcel=(policy) {
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
    fn a_parcel_unpacks_to_what_went_in() {
        let html = "<p>✓</p>".repeat(100);
        let text = parcel(7, &html).into_string();
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
