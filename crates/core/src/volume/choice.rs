//! The checks of a policy's choices against what [`ReadPolicy`] promises.
//!
//! [`ReadPolicy`]: crate::policy::ReadPolicy

use crate::column_set::ColumnSet;
use crate::policy::{Choice, StripeRead};

/// Asserts that `policy_choice` names mirrors among the `count` that the policy was shown, and that
/// a second read goes to another mirror than the first. A choice that does not is a bug of the
/// policy.
#[inline]
pub(super) fn check(policy_choice: Choice, count: usize) {
    match policy_choice {
        Choice::Mirror(index) => check_index(index, count),
        Choice::Split(set) | Choice::All(set) => match set.iter().next_back() {
            Some(last) => check_index(last, count),
            None => panic!("the policy chose an empty set of mirrors"),
        },
        Choice::Hedge { first, backup: second, .. } | Choice::Tied { first, second, .. } => {
            check_index(first, count);
            check_index(second, count);
            assert!(first != second, "the policy chose mirror {first} for both reads of a race");
        }
    }
}

/// Asserts that a policy leaves out no more columns than a read can do without, all of them
/// eligible. A choice that does not is a bug of the policy.
pub(super) fn check_left_out(left_out: ColumnSet, read: &StripeRead) {
    let StripeRead { eligible, spare, .. } = *read;
    assert!(left_out.is_within(eligible), "the policy left out {left_out:?} of {eligible:?}");
    let count = left_out.count();
    assert!(count <= spare, "the policy left out {count} columns where {spare} are to spare");
}

#[inline]
fn check_index(index: usize, count: usize) {
    assert!(index < count, "the policy chose mirror {index} of {count}");
}
