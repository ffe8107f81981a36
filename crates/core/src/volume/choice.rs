//! The check of a policy's choice against what [`ReadPolicy::choose`] promises.
//!
//! [`ReadPolicy::choose`]: crate::policy::ReadPolicy::choose

use crate::policy::Choice;

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

#[inline]
fn check_index(index: usize, count: usize) {
    assert!(index < count, "the policy chose mirror {index} of {count}");
}
