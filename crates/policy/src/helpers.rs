//! The helpers of the host.
//!
//! They are imports of the WebAssembly object. On other targets they are functions of the same name
//! with `mb_` before it, which a test of a policy may define.

#![allow(unsafe_code, reason = "functions that the host defines; see the page above")]

use crate::Member;

#[cfg_attr(target_family = "wasm", link(wasm_import_module = "mb"))]
unsafe extern "C" {
    #[cfg_attr(target_family = "wasm", link_name = "random")]
    safe fn mb_random() -> u64;
    #[cfg_attr(target_family = "wasm", link_name = "member")]
    safe fn mb_member(index: u32, out: &mut Member) -> i64;
    #[cfg_attr(target_family = "wasm", link_name = "hedge")]
    safe fn mb_hedge(backup: u32, after_ns: u64);
    #[cfg_attr(target_family = "wasm", link_name = "split")]
    safe fn mb_split(mask: u32);
    #[cfg_attr(target_family = "wasm", link_name = "read_all")]
    safe fn mb_read_all(mask: u32);
    #[cfg_attr(target_family = "wasm", link_name = "count")]
    safe fn mb_count(id: u32, n: i64);
    #[cfg_attr(target_family = "wasm", link_name = "note")]
    safe fn mb_note(index: u32, score: i64);
    #[cfg_attr(target_family = "wasm", link_name = "error")]
    safe fn mb_error(code: u32) -> !;
}

/// 64 random bits from the volume's generator. In `choose`, `submit` and `complete`.
pub fn random() -> u64 {
    mb_random()
}

/// A uniform number below `bound`, drawn as the built-in policies draw (Lemire's multiplication);
/// 0 if `bound` is 0. Draws again with a probability below `bound` / 2^64, four times at most.
pub fn random_below(bound: u32) -> u32 {
    let bound = u64::from(bound);
    let mut high = 0;
    for _ in 0..4 {
        let product = u128::from(random()) * u128::from(bound);
        high = (product >> 64) as u64;
        let low = product as u64;
        if low >= bound || low >= bound.wrapping_neg().checked_rem(bound).unwrap_or(0) {
            break;
        }
    }
    high as u32
}

/// The member of this index, or `None` if there is none. Not in `submit` and `complete`.
pub fn member(index: u32) -> Option<Member> {
    let mut out = Member::default();
    (mb_member(index, &mut out) == 0).then_some(out)
}

/// Reads from the mirror at `backup` as well, if the mirror that `choose` returns has not answered
/// after `after_ns`. The first good answer counts. In `choose`.
pub fn hedge(backup: usize, after_ns: u64) {
    mb_hedge(backup as u32, after_ns);
}

/// Cuts the read into a piece for each mirror whose bit is set. In `choose`, which then returns any
/// mirror of the set.
pub fn split(mask: u32) {
    mb_split(mask);
}

/// Reads from every mirror whose bit is set at once. The first good answer counts; the other reads
/// go on. In `choose`, which then returns any mirror of the set. Of [`hedge`], [`split`] and
/// `read_all` the last call counts.
pub fn read_all(mask: u32) {
    mb_read_all(mask);
}

/// Adds `n` to counter `id` (0 to 15), which `ctl stats` and results show as `count_ID`.
pub fn count(id: u32, n: i64) {
    mb_count(id, n);
}

/// Gives the mirror at `index` a score, for `mirrorball explain`; the lowest is the best. In
/// `choose`; does nothing otherwise.
pub fn note(index: usize, score: i64) {
    mb_note(index as u32, score);
}

/// Ends the policy with a fault: a bug of the policy was found. The fallback decides from now on,
/// and a simulation fails.
pub fn error(code: u32) -> ! {
    mb_error(code)
}

/// A panic is a fault whose code is its line.
#[cfg(target_family = "wasm")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    error(info.location().map_or(0, |location| location.line()))
}
