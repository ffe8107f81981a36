//! Rules that more than one policy obeys, each under a name of its own.
//!
//! A policy file states what is its own; what it has in common with another is here, so that a
//! correction reaches both. So is arithmetic that would hide a policy's rule among its details.

pub(super) mod address_part;
pub(super) mod averages;
pub(super) mod checkpoint;
pub(super) mod cycle;
pub(super) mod drbd_sides;
pub(super) mod equals;
pub(super) mod expected_delay;
pub(super) mod head_bonus;
pub(super) mod list_order;
pub(super) mod live_stripe;
pub(super) mod md_streams;
pub(super) mod offset_turn;
pub(super) mod path_list;
pub(super) mod per_cpu;
pub(super) mod rank;
pub(super) mod rotation;
pub(super) mod second_choice;
pub(super) mod serial_service;
pub(super) mod shortest_queue;
pub(super) mod slot_order;
pub(super) mod smallest;
pub(super) mod smoothed;
pub(super) mod time_weighted;
pub(super) mod two_choices;
