//! How much data a pool has: `zpool list -v`, else what a scan reports.

use super::super::array::DetectedMember;
use super::super::pasted::size_of;
use super::super::sysroot::Sysroot;
use super::super::tools::ZPOOL_LIST;
use super::ZfsPool;
use mirrorball_core::units::GIB;
use std::collections::BTreeMap;

/// The pool or a vdev of it, as `zpool list -v` shows it.
pub(super) struct ListedSpace {
    name: String,
    size_bytes: Option<u64>,
    allocated_bytes: u64,
}

impl ZfsPool {
    /// The size before a word of a scan, such as `917G total`.
    fn scanned(&self, word: &str) -> Option<u64> {
        let words: Vec<&str> = self.scan.split([' ', ',']).filter(|it| !it.is_empty()).collect();
        let at = words.iter().position(|it| *it == word)?;
        size_of(words.get(at.checked_sub(1)?)?)
    }

    /// How much of what a scan reads is issued, and how much there is: `522G issued …, 917G total`,
    /// or since OpenZFS 2.2 `901G / 2.31T issued`.
    fn issued(&self) -> Option<(u64, u64)> {
        let (front, _) = self.scan.split_once(" issued")?;
        let mut words = front.rsplit([' ', ',']).filter(|word| !word.is_empty());
        let last = size_of(words.next()?)?;
        match words.next() {
            Some("/") => Some((size_of(words.next()?)?, last)),
            _ => Some((last, self.scanned("total")?)),
        }
    }

    /// How long a scan takes that reports what it issued, at its present rate.
    pub(super) fn hours_left(&self) -> Option<f64> {
        let (_, rate) = self.scan.split_once(" issued at ")?;
        let rate = size_of(rate.split_once("/s")?.0)?;
        let (done, total) = self.issued()?;
        let left = total.saturating_sub(done);
        (rate > 0).then(|| left as f64 / rate as f64 / 3600.0)
    }

    /// Text and bytes of what the last resilver wrote: the data that a mirror had then, or less of
    /// a disk that had a part of them.
    fn resilvered(&self) -> Option<(&str, u64)> {
        let text = self.scan.strip_prefix("resilvered ")?.split(' ').next()?;
        Some((text, size_of(text)?))
    }

    /// A note on how much data is taken for those of the pool, if nothing says it. `is_guessed` is
    /// true if members are described with those of the last resilver.
    pub(super) fn guess_of_data(&self, sysroot: &Sysroot, is_guessed: bool) -> Option<String> {
        let resilvered = self.resilvered().filter(|_| is_guessed);
        let taken = match resilvered {
            Some((size, _)) => {
                format!("the {size} that were resilvered are taken for the data of each mirror")
            }
            None if sysroot.is_pasted() => "taken as full".to_owned(),
            None => return None,
        };
        Some(match sysroot.is_pasted() {
            true => format!(
                "the text does not say how much data the pool has: {taken}: paste the output of \
                 `zpool list -v`, too"
            ),
            false => format!("`zpool list -v` does not say how much data the pool has: {taken}"),
        })
    }

    /// The pool and its vdevs, as far as these are listed.
    pub(super) fn listed_space(&self, sysroot: &Sysroot) -> Vec<ListedSpace> {
        let text = sysroot.tool(&ZPOOL_LIST).unwrap_or_default();
        let mut rows = text.lines().skip_while(|row| self.behind_name(row).is_none());
        let own = rows.next().and_then(|row| self.behind_name(row));
        let pool = own.map(|rest| (self.name.as_str(), rest));
        let vdevs = rows.map_while(|row| row.strip_prefix('\t')?.split_once('\t'));
        let row = |(name, rest): (&str, &str)| {
            let mut words = rest.split_whitespace().map(size_of);
            let (size_bytes, allocated_bytes) = (words.next()?, words.next()??);
            Some(ListedSpace { name: name.to_owned(), size_bytes, allocated_bytes })
        };
        pool.into_iter().chain(vdevs).filter_map(row).collect()
    }

    fn of_pool<'b>(&self, listed: &'b [ListedSpace]) -> Option<&'b ListedSpace> {
        listed.iter().find(|row| row.name == self.name)
    }

    /// Sets how much data each member of the mirrors has, as far as that is known, and the size of
    /// one that no other part of a text says.
    pub(super) fn set_used_bytes(
        &self,
        listed: &[ListedSpace],
        mirrors: u64,
        members: &mut [DetectedMember],
    ) {
        let of_pool = self.allocated_bytes(listed).map(|bytes| bytes / mirrors);
        let of_pool = of_pool.or(self.resilvered().map(|(_, bytes)| bytes));
        let own = self.of_pool(listed);
        let size = own.and_then(|own| own.size_bytes.filter(|size| *size >= own.allocated_bytes));
        let size = size.map(|size| size / mirrors).filter(|bytes| *bytes >= GIB);
        for member in members {
            if member.size_or_of_disk().is_none() {
                member.size_bytes = size;
            }
            let own = listed.iter().find(|row| Some(&row.name) == member.group.as_ref());
            member.used_bytes = own.map(|row| row.allocated_bytes).or(of_pool);
        }
    }

    /// Bytes that hold data, with their copies counted once.
    pub(super) fn allocated_bytes(&self, listed: &[ListedSpace]) -> Option<u64> {
        let own = self.of_pool(listed).map(|row| row.allocated_bytes);
        // A scan says what it has to do.
        let own = own.or_else(|| Some(self.issued()?.1)).or_else(|| self.scanned("total"));
        let out_of = || size_of(self.scan.split_once(" out of ")?.1.split(' ').next()?);
        own.or_else(out_of).or_else(|| self.scanned("scanned"))
    }

    /// How much of the pool is allocated, in percent, if that is known: a mirror is as large as the
    /// smallest of its disks.
    pub(super) fn filled_percent(
        &self,
        listed: &[ListedSpace],
        members: &[DetectedMember],
    ) -> Option<u64> {
        let allocated = self.allocated_bytes(listed)?;
        let of_disks = || {
            let mut mirrors: BTreeMap<Option<&str>, u64> = BTreeMap::new();
            for member in members.iter().filter(|member| !member.is_failed) {
                let size = mirrors.entry(member.group.as_deref()).or_insert(u64::MAX);
                *size = member.size_bytes?.min(*size);
            }
            mirrors.values().try_fold(0_u64, |sum, size| sum.checked_add(*size))
        };
        let size = self.of_pool(listed).and_then(|row| row.size_bytes).or_else(of_disks)?;
        allocated.saturating_mul(100).checked_div(size)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_status;
    use super::*;
    use std::path::Path;

    #[test]
    fn a_guess_by_the_last_resilver_is_noted_on_every_machine() {
        let machine = Sysroot::recorded(Path::new("/nonexistent"));
        let pools =
            parse_status("  pool: tank\n  scan: resilvered 300G in 01:00:03 with 0 errors\n");
        let note = |is_guessed| pools[0].guess_of_data(&machine, is_guessed);
        assert!(note(true).unwrap().contains("the 300G that were resilvered are taken"));
        assert_eq!(note(false), None);
        assert_eq!(pools[0].filled_percent(&[], &[]), None, "a resilver fills no pool");
    }
}
