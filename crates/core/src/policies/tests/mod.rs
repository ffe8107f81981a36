//! Tests of the table and of properties of every policy. Golden decisions and the parser have files
//! of their own.

mod golden;
mod golden_auto;
mod golden_bcachefs;
mod golden_btrfs;
mod golden_md_old;
mod golden_mirrorball;
mod golden_modifiers;
mod golden_reconstruction;
mod golden_research;
mod parsers;
mod script;

use super::{MIRRORS_MAX, PolicyInfo, Spec, all, modifiers};
use crate::member::{Member, MemberConfig, MemberIndex, Members};
use crate::policy::{Choice, Ctx, Mirror, MirrorScore, Read};
use crate::rng::Rng;
use crate::units::{GIB, MIB, Nanos};
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn names_and_aliases_are_unique_and_find_their_row() {
    let mut seen = BTreeSet::new();
    for info in all() {
        for &name in std::iter::once(&info.name).chain(info.aliases) {
            assert!(seen.insert(name), "`{name}` is used twice");
            assert_eq!(super::find(name).map(|found| found.name), Some(info.name));
        }
        assert!(!info.summary.is_empty() && !info.summary.ends_with('.'), "{}", info.name);
    }
}

#[test]
fn every_page_has_the_fixed_headings_in_order() {
    let policies = all().map(|info| (info.name, info.page()));
    let modifiers = modifiers::ALL.iter().map(|info| (info.name, info.page()));
    for (name, page) in policies.chain(modifiers) {
        let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("# ")).collect();
        let expected = ["Idea", "State", "Cost", "Good at", "Bad at", "Origin"];
        assert_eq!(headings, expected, "{name}");
        for section in page.split("# ").skip(1) {
            let text = section.split_once('\n').map_or("", |(_, text)| text.trim());
            assert!(!text.is_empty(), "{name}: an empty section: {section}");
        }
    }
}

/// A file that is not a policy must be one of the few that all policies use.
#[test]
fn every_policy_file_has_its_row_and_every_row_its_file() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/policies");
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(stem) = name.strip_suffix(".rs") {
            files.insert(stem.to_string());
        }
    }
    let file_of = |info: &PolicyInfo| info.name.replace(['/', '-'], "_");
    let others = ["error", "mod", "program", "program_values", "registry", "spec", "value"];
    let others = others.map(String::from);
    let expected: BTreeSet<String> = all().map(file_of).chain(others).collect();
    assert_eq!(files, expected);
    for info in all() {
        let source = std::fs::read_to_string(format!("{folder}/{}.rs", file_of(info))).unwrap();
        assert_eq!(source, info.source, "{} includes another file's page", info.name);
        assert!(source.lines().count() <= 150, "{} is longer than 150 lines", info.name);
    }
}

#[test]
fn defaults_and_rounded_values_are_in_range() {
    let of_modifiers = modifiers::ALL.iter().flat_map(|info| info.parameters);
    for parameter in all().flat_map(|info| info.parameters).chain(of_modifiers) {
        assert!(parameter.range.end().is_multiple_of(parameter.multiple_of), "{}", parameter.name);
        if let Some(default) = parameter.default {
            assert!(parameter.range.contains(&default), "{}", parameter.name);
            assert!(default.is_multiple_of(parameter.multiple_of), "{}", parameter.name);
        }
    }
}

/// Policies that give reasons and always take the lowest score.
const TAKE_THE_LOWEST: [&str; 6] = [
    "btrfs/latency", "dm/service-time", "gmirror/load", "kakra/latency-rr", "md/raid1",
    "zfs/mirror",
];

/// True if the policy is asked for its reasons before each choice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reasons {
    Asked,
    Unasked,
}

/// Plays 200 random reads on random members and mirrors, with statistics that change between them,
/// and returns the choices.
fn random_choices(spec: &Spec, seed: u64, reasons: Reasons) -> Vec<Choice> {
    let mut draw = Rng::new(seed);
    let number = 2 + draw.below(MIRRORS_MAX as u64 * 2);
    let mut members = Members::new((1..=number).map(|devid| MemberConfig {
        rotational: draw.below(2) == 0,
        optimal_io_bytes: draw.below(2) * MIB,
        priority: draw.below(4) as u32,
        ..MemberConfig::new(devid, GIB)
    }));
    let devids: Vec<u64> = (1..=number).collect();
    let mut policy = spec.build(&devids).unwrap();
    policy.on_members_change(&members);
    let mut rng = Rng::new(seed);
    let mut choices = Vec::new();
    for step in 0..200 {
        for index in 0..number {
            shuffle_statistics(members.get_mut(MemberIndex(index as u16)), &mut draw);
        }
        let mirrors = random_mirrors(number, &mut draw);
        let read = Read {
            offset: draw.below(64) * MIB / 2,
            length: 4096 << draw.below(8),
            stream: draw.next_u64(),
            cpu: draw.below(4) as u32,
            background: false,
            copies: mirrors.last().unwrap().copy + 1 + draw.below(2) as u8,
        };
        let now = Nanos::from_millis(step * 300);
        let mut ctx = Ctx { now, members: &members, rng: &mut rng };
        let given = match reasons {
            Reasons::Asked => policy.explain(&read, &mirrors, &ctx),
            Reasons::Unasked => Vec::new(),
        };
        let choice = policy.choose(&read, &mirrors, &mut ctx);
        let place = choice.first();
        assert!(place < mirrors.len(), "{spec}: {place} of {}", mirrors.len());
        if reasons == Reasons::Asked {
            check_reasons(&spec.to_string(), &given, mirrors.len(), place);
        }
        choices.push(choice);
        let io = read.io(&mirrors[place], ctx.now);
        policy.on_submit(&io, &mut ctx);
        if step == 100 {
            policy.on_members_change(&members);
        }
    }
    choices
}

/// Checks that there is one reason for each mirror, or none, and that the lowest score won.
fn check_reasons(spec: &str, reasons: &[MirrorScore], mirrors: usize, chosen: usize) {
    assert!(reasons.is_empty() || reasons.len() == mirrors, "{spec}: {reasons:?}");
    if TAKE_THE_LOWEST.contains(&spec) {
        let lowest = reasons.iter().map(|reason| reason.score.value).min();
        let score = reasons.get(chosen).map(|reason| reason.score.value);
        assert!(score.is_some() && score == lowest, "{spec} took {chosen} of {reasons:?}");
    }
}

/// Changes the queues at random, and increases all other statistics.
fn shuffle_statistics(member: &mut Member, draw: &mut Rng) {
    member.reads_in_flight = draw.below(8) as u32;
    member.writes_in_flight = draw.below(3) as u32;
    member.submitted_end = draw.below(16) * MIB;
    member.completed_end = draw.below(16) * MIB;
    member.last_wait = Nanos(draw.below(1 << 24));
    member.reads_completed += draw.below(3);
    member.read_wait += Nanos(draw.below(1 << 24));
}

/// Two to sixteen mirrors on distinct members in any order, with gaps among their copy numbers.
fn random_mirrors(members: u64, draw: &mut Rng) -> Vec<Mirror> {
    let mut indexes: Vec<u16> = (0..members as u16).collect();
    for place in (1..indexes.len()).rev() {
        indexes.swap(place, draw.below(place as u64 + 1) as usize);
    }
    indexes.truncate(2 + draw.below(MIRRORS_MAX as u64 - 1) as usize);
    let mut copy = 0;
    let mirror = |index| {
        copy += 1 + draw.below(2) as u8;
        Mirror { member: MemberIndex(index), offset: draw.below(16) * MIB, copy: copy - 1 }
    };
    indexes.into_iter().map(mirror).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_policy_stays_in_range_and_explain_does_not_change_choices(seed in any::<u64>()) {
        for spec in all().map(Spec::new) {
            let asked = random_choices(&spec, seed, Reasons::Asked);
            prop_assert_eq!(asked, random_choices(&spec, seed, Reasons::Unasked));
        }
    }

    #[test]
    fn every_modifier_stays_in_range_and_explain_does_not_change_choices(seed in any::<u64>()) {
        for policy in ["random", "btrfs/pid", "gmirror/split", "read-all-first"] {
            for list in ["hedge", "tied", "autosit", "fail-slow", "prefer-member:2+write-mostly:1"]
            {
                let Ok(spec) = Spec::parse(&format!("{policy}+{list}")) else {
                    prop_assert_eq!(policy, "read-all-first");
                    continue;
                };
                let asked = random_choices(&spec, seed, Reasons::Asked);
                prop_assert_eq!(asked, random_choices(&spec, seed, Reasons::Unasked));
            }
        }
    }
}
