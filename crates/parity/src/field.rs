//! Elements of GF(2^8) with the polynomial 0x11d, whose generator is 2.

/// The polynomial without its highest term.
pub(crate) const POLYNOMIAL: u8 = 0x1d;

/// Number of powers of 2 that differ.
const ORDER: u32 = 255;

pub(crate) const fn double(x: u8) -> u8 {
    (x << 1) ^ if x & 0x80 != 0 { POLYNOMIAL } else { 0 }
}

pub(crate) const fn multiply(mut x: u8, mut y: u8) -> u8 {
    let mut product = 0;
    while y != 0 {
        product ^= if y & 1 != 0 { x } else { 0 };
        x = double(x);
        y >>= 1;
    }
    product
}

/// 2 to the power of an exponent, which counts modulo 255.
pub(crate) fn power_of_2(exponent: i32) -> u8 {
    (0..exponent.rem_euclid(ORDER as i32)).fold(1, |power, _| double(power))
}

/// The inverse of an element other than zero.
pub(crate) fn inverse(x: u8) -> u8 {
    assert_ne!(x, 0, "zero has no inverse");
    // x to the power of 254: the product of x^2, x^4, … x^128.
    let squares =
        std::iter::successors(Some(multiply(x, x)), |&square| Some(multiply(square, square)));
    squares.take(7).fold(1, multiply)
}
