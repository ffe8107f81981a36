//! The files of sysfs that say what an array of md is.

use super::md_array::MdArray;
use super::tree::Tree;

pub(super) fn write(tree: &mut Tree) {
    for (name, array) in std::mem::take(&mut tree.md) {
        array.write(&name, tree);
    }
}

impl MdArray {
    fn write(&self, name: &str, tree: &mut Tree) {
        /// More than any array has.
        const SLOTS_MAX: u64 = 512;
        let folder = tree.device(name);
        let md = format!("{folder}/md");
        let is_guessed = self.level.is_empty() && self.devices.len() > 1;
        if self.is_inactive || self.level.is_empty() && !is_guessed {
            return tree.add(format!("{md}/array_state"), "inactive");
        }
        if is_guessed {
            tree.note(format!(
                "the text has no level of {name}: taken for raid1; `cat /proc/mdstat` says it"
            ));
        }
        let level = if is_guessed { "raid1" } else { &self.level };
        let in_use = self.devices.values().filter(|it| it.slot.is_some()).count() as u64;
        let slots = if self.slots == 0 { in_use } else { self.slots }.clamp(1, SLOTS_MAX);
        let up = self.up.unwrap_or(in_use);
        if self.up.is_none() && self.uuid.is_some() && in_use < slots {
            tree.note(format!(
                "the text shows {in_use} of the {slots} members of {name}: the others are taken \
                 for missing"
            ));
        }
        tree.add(format!("{md}/level"), level);
        tree.add(format!("{md}/raid_disks"), slots.to_string());
        tree.add(format!("{md}/degraded"), slots.saturating_sub(up).to_string());
        tree.add(format!("{md}/array_state"), "clean");
        let number = self.layout.unwrap_or(2 | 1 << 8);
        let copies = (number & 0xff).max(1) * (number >> 8 & 0xff).max(1);
        let is_raid10 = self.level == "raid10";
        if is_raid10 && self.layout.is_none() {
            tree.note(format!("the text has no layout of {name}: taken for near=2"));
        }
        let of_array = self.size_kib.and_then(|kib| match self.level.as_str() {
            "raid10" => Some(kib.saturating_mul(copies) / slots),
            "raid1" | "" => Some(kib),
            _ => None,
        });
        if let Some(kib) = self.member_kib.or(of_array) {
            tree.add(format!("{md}/component_size"), kib.to_string());
            self.devices.keys().for_each(|device| tree.check_size(name, device, kib));
        }
        tree.add(format!("{md}/layout"), if is_raid10 { number } else { 0 }.to_string());
        tree.add(format!("{md}/chunk_size"), self.chunk_bytes.unwrap_or(0).to_string());
        tree.add(format!("{md}/sync_action"), self.action.unwrap_or("idle"));
        if let Some((done, all)) = self.progress {
            tree.add(format!("{md}/sync_completed"), format!("{done} / {all}"));
        }
        if let Some(kib_per_s) = self.kib_per_s {
            tree.add(format!("{md}/sync_speed"), kib_per_s.to_string());
        }
        for (device, member) in &self.devices {
            let own = format!("{md}/dev-{device}");
            let block = tree.device(device);
            tree.link(format!("{own}/block"), block.clone());
            tree.link(format!("{folder}/slaves/{device}"), block);
            tree.add(format!("{own}/state"), member.state.clone());
            let slot = member.slot.map_or("none".to_owned(), |it| it.to_string());
            tree.add(format!("{own}/slot"), slot);
            if let Some(offset) = member.offset {
                tree.add(format!("{own}/offset"), offset.to_string());
            }
        }
    }
}
