//! Rules that more than one policy uses.
//!
//! A policy file holds what is specific to it. What it shares with another is here, so that a
//! correction reaches both. So is arithmetic that would hide a policy's rule.

pub(super) mod address_partition;
pub(super) mod block_rotation;
pub(super) mod checkpointed_mean;
pub(super) mod drbd_peers;
pub(super) mod expected_delay;
pub(super) mod head_bonus;
pub(super) mod list_order;
pub(super) mod lowest_live;
pub(super) mod md_streams;
pub(super) mod mean_wait;
pub(super) mod moving_mean;
pub(super) mod offset_stripe;
pub(super) mod path_list;
pub(super) mod per_cpu;
pub(super) mod rank;
pub(super) mod round_robin;
pub(super) mod second_choice;
pub(super) mod serial_service;
pub(super) mod shortest_queue;
pub(super) mod slot_order;
pub(super) mod smallest;
pub(super) mod submitted_depths;
pub(super) mod ties;
pub(super) mod time_weighted;
pub(super) mod two_choices;
