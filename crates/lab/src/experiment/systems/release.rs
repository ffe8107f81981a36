//! Whether the read policies of a system are known for one of its versions.

use super::{System, Version};
use mirrorball_core::diagnostic::Diagnostic;

impl System {
    /// Checks that a policy is known for `version`.
    ///
    /// # Errors
    /// If none is; the help names the versions that have one.
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
        let newest = self.newest_read.as_ref()?;
        (!version.is_within(newest)).then(|| {
            let name = &self.version_of;
            format!(
                "{name} {version} is newer than {name} {newest}, the newest version whose source \
                 was examined; the settings of that version are assumed"
            )
        })
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
        ranges.retain(|range| range.1.is_some() || Some(*range) == open);
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
