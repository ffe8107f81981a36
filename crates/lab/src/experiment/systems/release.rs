//! Whether the read policies of a system are known for one of its versions.

use super::{System, Version};
use mirrorball_core::diagnostic::Diagnostic;

impl System {
    /// Checks that a policy is known for `version`. Fails if none is; the help names the versions
    /// that have one.
    pub fn check_version(&self, version: &Version) -> Result<(), Diagnostic> {
        if self.offers.iter().any(|offer| offer.is_in(Some(version))) {
            return Ok(());
        }
        let what =
            format!("no read policy of {} is known for {} {version}", self.title, self.version_of);
        let help = format!(
            "the read policies of these versions are known: {}; name the nearest of them, or \
             leave out `:{version}` for the newest",
            self.known_versions()
        );
        Err(Diagnostic::new(what).with_help(help))
    }

    /// What to say of a version that is newer than every one whose sources were read.
    pub fn note_if_newer(&self, version: &Version) -> Option<String> {
        let name = &self.version_of;
        let Some(newest) = &self.newest_read else { return self.note_if_not_named(version) };
        (!version.is_within(newest)).then(|| {
            format!(
                "{name} {version} is newer than {name} {newest}, the newest version whose source \
                 was examined; the settings of that version are assumed"
            )
        })
    }

    /// What to say of a version that is newer than every one that an offer names.
    fn note_if_not_named(&self, version: &Version) -> Option<String> {
        let name = &self.version_of;
        let bounds = self.offers.iter().flat_map(|offer| [&offer.since, &offer.until]);
        let newest = bounds.flatten().max();
        match newest {
            Some(newest) if version.is_within(newest) => None,
            Some(newest) => Some(format!(
                "no change of the read policies of {name} after {newest} is known; {version} is \
                 taken to offer the same"
            )),
            None => Some(format!(
                "no version of {name} is known to differ from the others; {version} is taken to \
                 offer the same"
            )),
        }
    }

    /// The versions for which a policy is known, each range once.
    fn known_versions(&self) -> String {
        let mut ranges: Vec<(Option<&Version>, Option<&Version>)> = Vec::new();
        for offer in self.offers.iter().filter(|offer| offer.patch.is_none()) {
            ranges.push((offer.since.as_ref(), offer.until.as_ref()));
        }
        ranges.sort();
        ranges.dedup();
        // Of the ranges without an end the earliest holds the others.
        let open = ranges.iter().find(|(_, until)| until.is_none()).copied();
        let is_within_open = |range: &(Option<&Version>, Option<&Version>)| {
            open.is_some_and(|open| open.0 <= range.0 && open != *range)
        };
        ranges.retain(|range| !is_within_open(range));
        // One that begins right behind another goes on with it.
        ranges.dedup_by(|next, range| {
            let follows = range.1.zip(next.0).is_some_and(|(until, since)| since.follows(until));
            if follows {
                range.1 = next.1;
            }
            follows
        });
        let words = ranges.into_iter().map(|range| match range {
            (None, None) => "of any number".to_owned(),
            (Some(since), None) => format!("from {since} on"),
            (None, Some(until)) => format!("up to {until}"),
            (Some(since), Some(until)) => format!("{since} to {until}"),
        });
        let words: Vec<String> = words.collect();
        match &words[..] {
            [first @ .., last] if !first.is_empty() => format!("{}, and {last}", first.join(", ")),
            words => words.concat(),
        }
    }
}
