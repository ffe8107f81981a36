//! How far to trust advice: as far as the least certain model of a member.

use crate::experiment::systems::System;
use mirrorball_disk::array_file::{ArraySpec, MemberSpec, ModelConfidence};

/// How far to trust advice: the models, and what else is not known.
pub(super) fn whole_statement(array: &ArraySpec, system: &System, is_assumed: bool) -> String {
    let mut stated = statement(array);
    if let ([local, peers @ ..], true) = (&array.members[..], system.has_peers) {
        stated += &format!("; devid {} is taken for the local disk", local.devid);
        if peers.iter().all(|peer| peer.link.is_none()) {
            stated += ", and no network to a peer is described, so a peer's disk answers as fast \
                       as a local one";
        }
    }
    if system.is_multipath {
        stated = stated.replace("a disk of unknown kind", "a path whose speed is not known");
        stated += "; each path is simulated as a device of its own, so the factors hold only where \
                   the paths, not the device, are the limit";
    }
    let source = array.source.as_ref();
    if let Some(what) = source.and_then(|source| source.not_known.as_ref()) {
        stated += &format!("; not known: {what}");
    }
    if is_assumed && source.is_some() {
        stated += "; the factors are over the default, which may not be in force";
    }
    stated
}

/// True if the model of a member in service stands for a disk of unknown kind.
pub(super) fn is_guess(array: &ArraySpec) -> bool {
    let is_guessed = |member: &MemberSpec| member.confidence == Some(ModelConfidence::Guessed);
    array.members.iter().any(|member| member.is_in_service() && is_guessed(member))
}

/// The least certain of the members' models, in words: `class default: the models of devids 1 and 2
/// stand for their kind of disk`.
pub(super) fn statement(array: &ArraySpec) -> String {
    let in_service = || array.members.iter().filter(|member| member.is_in_service());
    let with = |confidence: Option<ModelConfidence>| -> Vec<&MemberSpec> {
        in_service().filter(|member| member.confidence == confidence).collect()
    };
    let worst = in_service().filter_map(|member| member.confidence).max();
    let stated = match worst {
        None => return "not stated: the models are those that the array names".to_owned(),
        Some(ModelConfidence::Fitted) => {
            "fitted: the models were fitted to measurements of the disks".to_owned()
        }
        Some(ModelConfidence::FittedLate) => "measured, doubtful".to_owned(),
        Some(ModelConfidence::KnownModel) => {
            "known model: the models were chosen by the model names of the disks".to_owned()
        }
        Some(worst @ ModelConfidence::ClassDefault) => {
            format!("class default: {} only for its kind of disk", stand(&with(Some(worst))))
        }
        Some(worst @ ModelConfidence::Guessed) => {
            format!("guessed: {} for a disk of unknown kind", stand(&with(Some(worst))))
        }
    };
    let mut stated = match &with(Some(ModelConfidence::FittedLate))[..] {
        [] => stated,
        late => format!("{stated}; the host was late while it measured {}", named(late)),
    };
    if let others @ [_, ..] = &with(None)[..] {
        stated += &format!("; {} as the array names it", stand(others));
    }
    stated
}

/// `the model of devid 2 stands`, `each of the models of devids 1 and 2 stands`.
fn stand(members: &[&MemberSpec]) -> String {
    let models = if members.len() == 1 { "the model" } else { "each of the models" };
    format!("{models} of {} stands", named(members))
}

/// `devid 2`, `devids 1 and 2`.
fn named(members: &[&MemberSpec]) -> String {
    let devids: Vec<String> = members.iter().map(|member| member.devid.to_string()).collect();
    let runs = |from: usize| members[from].devid - members[0].devid == from as u64;
    match &devids[..] {
        [one] => format!("devid {one}"),
        // Of many, the first and the last.
        [first, .., last] if members.len() > 4 && (0..members.len()).all(runs) => {
            format!("devids {first} to {last}")
        }
        [first @ .., last] => format!("devids {} and {last}", first.join(", ")),
        [] => unreachable!("a confidence is that of a member"),
    }
}

#[cfg(test)]
mod tests {
    use super::statement;
    use mirrorball_disk::array_file::ArrayFile;

    #[test]
    fn the_least_certain_model_decides() {
        let of = |first: &str, second: &str, third: &str| {
            let member = |confidence: &str| {
                let line = match confidence {
                    "" => String::new(),
                    name => format!("confidence = \"{name}\"\n"),
                };
                format!("[[member]]\nmodel = \"hdd-5k4\"\n{line}")
            };
            let members = member(first) + &member(second) + &member(third);
            let text = format!("profile = \"raid1\"\n{members}");
            statement(&ArrayFile::parse(&text, "a.toml").unwrap().spec)
        };
        for (confidences, expected) in [
            (["", "", ""], "not stated: the models are those that the array names"),
            (["fitted"; 3], "fitted: the models were fitted to measurements of the disks"),
            (
                ["fitted", "fitted, host late", "fitted"],
                "measured, doubtful; the host was late while it measured devid 2",
            ),
            (
                ["fitted", "known model", "fitted"],
                "known model: the models were chosen by the model names of the disks",
            ),
            (
                ["known model", "class default", "fitted"],
                "class default: the model of devid 2 stands only for its kind of disk",
            ),
            (
                ["guessed", "guessed", "class default"],
                "guessed: each of the models of devids 1 and 2 stands for a disk of unknown kind",
            ),
            (
                ["guessed", "", "fitted"],
                "guessed: the model of devid 1 stands for a disk of unknown kind; the model of \
                 devid 2 stands as the array names it",
            ),
        ] {
            let [first, second, third] = confidences;
            assert_eq!(of(first, second, third), expected);
        }
    }
}
