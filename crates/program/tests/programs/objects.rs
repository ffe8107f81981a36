//! Writes objects byte by byte, for tests of what no compiler would make.

/// Code of a type.
const I32: u8 = 0x7f;
/// Code of a type.
const I64: u8 = 0x7e;
/// `i64.const 0`: the first mirror.
pub(crate) const FIRST_MIRROR: &[u8] = &[0x42, 0];
const END: &[u8] = &[0x0b];

/// A policy with `choose` and any number of other functions, which have neither arguments nor
/// results. Its variables are at 1024 and its context is at 2048.
#[derive(Clone, Default)]
pub(crate) struct Object {
    /// Instructions of `choose`, which has index 0, without the last `end`.
    pub(crate) choose: Vec<u8>,
    /// Instructions of functions 1, 2, …, without the last `end`.
    pub(crate) others: Vec<Vec<u8>>,
    pub(crate) start: Option<u32>,
}

impl Object {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"\0asm\x01\0\0\0".to_vec();
        let types = [vec![0x60, 1, I32, 1, I64], vec![0x60, 0, 0]];
        section(&mut bytes, 1, &types);
        let kinds = self.others.iter().map(|_| vec![1]);
        section(&mut bytes, 3, &[vec![0]].into_iter().chain(kinds).collect::<Vec<_>>());
        section(&mut bytes, 5, &[vec![0, 1]]);
        let constant = |place: u64| [&[I32, 0, 0x41][..], &signed(place), END].concat();
        section(&mut bytes, 6, &[constant(1024), constant(2048)]);
        let export = |name: &str, kind, index| [&text(name)[..], &[kind, index]].concat();
        let exports = [
            export("choose", 0, 0),
            export("memory", 2, 0),
            export("mb_program", 3, 0),
            export("mb_context", 3, 1),
        ];
        section(&mut bytes, 7, &exports);
        if let Some(start) = self.start {
            bytes.extend([8, 1, start as u8]);
        }
        let functions = [&self.choose].into_iter().chain(&self.others);
        let bodies = functions.map(|code| body(&[&[0][..], code].concat()));
        section(&mut bytes, 10, &bodies.collect::<Vec<_>>());
        let mut data = [&[1, 0, 0, 0, 0, 0, 0, 0][..], b"written"].concat();
        data.resize(256, 0);
        let place = [&[0, 0x41][..], &signed(1024), END].concat();
        section(&mut bytes, 11, &[[&place[..], &number(256), &data].concat()]);
        bytes
    }
}

/// A number in as many bytes as it needs.
pub(crate) fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A number that is not negative, in the form for signed numbers.
fn signed(value: u64) -> Vec<u8> {
    let mut bytes = number(value);
    if bytes.last().is_some_and(|byte| byte & 0x40 != 0) {
        *bytes.last_mut().unwrap() |= 0x80;
        bytes.push(0);
    }
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [&number(text.len() as u64)[..], text.as_bytes()].concat()
}

fn body(code: &[u8]) -> Vec<u8> {
    [&number(code.len() as u64 + 1)[..], code, END].concat()
}

fn section(bytes: &mut Vec<u8>, id: u8, items: &[Vec<u8>]) {
    let contents = [number(items.len() as u64), items.concat()].concat();
    bytes.push(id);
    bytes.extend(number(contents.len() as u64));
    bytes.extend(contents);
}
