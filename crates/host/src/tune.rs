//! `mirrorball tune`: a setting applied to a running array, kept over restarts, and undone.
//!
//! It changes what the settings of `bench` change, by the same knobs, with the same journal, lock
//! and watchdog; only that the setting stays. A killed process never leaves half of a setting: the
//! watchdog restores what was in force before, until the last value was read back and the array
//! was found as before.
//!
//! | module | contents |
//! |---|---|
//! | `plan` | what would be changed, and written to keep it |
//! | `persistence` | the files that set it again when the machine starts |
//! | `apply` | the change, in its order |
//! | `alternatives`, `auto` | the service that keeps reads away from a slow member |
//! | `status` | what was applied, and what of it is in force |

mod alternatives;
mod apply;
mod auto;
mod persistence;
mod plan;
mod status;

pub use apply::{Undone, undo, undo_service};
pub use auto::{AutoEvent, AutoOptions, AutoState, AutoTune};
pub use plan::{PlannedChange, TunePlan};
pub use status::{SettingState, TunedArray, TunedPlace, status};
