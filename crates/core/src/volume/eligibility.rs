//! Which mirrors may serve a read, in tiers.
//!
//! In sync for the range, and not failed in this very request: without that a copy cannot serve at
//! all. Then preferences, each dropped where it would leave nothing: not sitting out after errors,
//! not write-mostly.

use super::backoff::Backoff;
use super::piece::Piece;
use crate::geometry::MAX_COPIES;
use crate::member::{Member, MemberState, Members};
use crate::policy::Mirror;

/// The eligible mirrors of one piece, in the order of its chunk's stripes.
#[derive(Clone, Copy, Debug)]
pub struct Eligible {
    list: [Mirror; MAX_COPIES],
    count: usize,
}

impl Eligible {
    #[inline]
    /// They, at least one where a policy is asked.
    pub fn as_slice(&self) -> &[Mirror] {
        &self.list[..self.count]
    }

    /// Every mirror of a piece none of whose members is in any way special.
    #[inline]
    pub(super) fn all(mirrors: &[Mirror]) -> Eligible {
        let mut list = [mirrors[0]; MAX_COPIES];
        list[..mirrors.len()].copy_from_slice(mirrors);
        Eligible { list, count: mirrors.len() }
    }

    /// Runs the tiers.
    pub(super) fn among(piece: &Piece, members: &Members, backoffs: &[Backoff]) -> Eligible {
        let mut eligible = Eligible::all(piece.mirrors());
        eligible.count = retain(&mut eligible.list, eligible.count, |mirror| {
            let in_sync = members[mirror.member].is_in_sync(mirror.offset, piece.length);
            in_sync && !piece.failed.contains(usize::from(mirror.copy))
        });
        eligible.prefer(|mirror| backoffs[mirror.member.get()].until().is_none());
        eligible.prefer(|mirror| !members[mirror.member].config.write_mostly);
        eligible
    }

    /// Keeps what `wanted` approves of, unless that is nothing.
    fn prefer(&mut self, wanted: impl Fn(&Mirror) -> bool) {
        if self.as_slice().iter().any(&wanted) {
            self.count = retain(&mut self.list, self.count, wanted);
        }
    }
}

/// Whether a member needs no tier: then reads of an array of such members skip them all.
pub(super) fn is_plain(member: &Member, backoff: &Backoff) -> bool {
    let in_sync = member.state == MemberState::InSync;
    in_sync && backoff.until().is_none() && !member.config.write_mostly
}

/// Moves the wanted ones of the first `count` to the front, in order, and returns their number.
fn retain(list: &mut [Mirror], count: usize, wanted: impl Fn(&Mirror) -> bool) -> usize {
    let mut kept = 0;
    for index in 0..count {
        if wanted(&list[index]) {
            list[kept] = list[index];
            kept += 1;
        }
    }
    kept
}
