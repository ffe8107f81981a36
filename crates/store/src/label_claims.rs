//! Claims of a label about the state of a member, and whether they are true.

use crate::label::LabelledMember;
use mirrorball_core::member::MemberState;

/// The state to record. Progress of a rebuild is recorded once it is durable.
pub(crate) fn recorded_state(
    row: &LabelledMember,
    state: MemberState,
    durable_bytes: u64,
) -> MemberState {
    let MemberState::Rebuilding { recovered_bytes: now } = state else { return state };
    let recorded_bytes = match row.state {
        MemberState::Rebuilding { recovered_bytes } => recovered_bytes,
        MemberState::InSync | MemberState::Failed => 0,
    };
    let recorded =
        MemberState::Rebuilding { recovered_bytes: recorded_bytes.max(durable_bytes).min(now) };
    assert!(!claims_more(recorded, state), "{recorded:?} of {state:?}");
    recorded
}

/// Returns true if a label may say this of a member.
pub(crate) fn is_true(recorded: MemberState, state: MemberState) -> bool {
    std::mem::discriminant(&recorded) == std::mem::discriminant(&state)
        && !claims_more(recorded, state)
}

/// Returns true if a label says that more of a member was rebuilt than is.
pub(crate) fn claims_more(recorded: MemberState, state: MemberState) -> bool {
    match (recorded, state) {
        (
            MemberState::Rebuilding { recovered_bytes },
            MemberState::Rebuilding { recovered_bytes: now },
        ) => recovered_bytes > now,
        (MemberState::InSync, MemberState::Rebuilding { .. }) => true,
        _ => false,
    }
}
