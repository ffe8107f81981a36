//! Lines of a trace about itself: which device lies on which, and lost events.

/// Devices that lie on others: md and device-mapper on disks, partitions on a disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remaps {
    /// Each lower device with one that lies on it.
    pairs: Vec<[Vec<u8>; 2]>,
}

/// Most pairs that are kept: each is searched for with each request that is passed on.
const PAIRS_MAX: usize = 64;

impl Remaps {
    /// Adds that `lower` got a request from another device, written as in `<- (9,0) 2048`.
    pub(crate) fn add<'a>(&mut self, lower: &[u8], behind: impl Iterator<Item = &'a [u8]>) {
        let mut upper = behind.skip_while(|field| *field != b"<-").skip(1);
        let upper = upper.next().and_then(|it| it.strip_prefix(b"(")?.strip_suffix(b")"));
        let Some(upper) = upper.filter(|_| self.pairs.len() < PAIRS_MAX) else { return };
        if !self.pairs.iter().any(|[low, high]| low == lower && high == upper) {
            self.pairs.push([lower.to_vec(), upper.to_vec()]);
        }
    }

    /// The lower devices, each with one that lies on it.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = [String; 2]> {
        let name = |it: &Vec<u8>| String::from_utf8_lossy(it).into_owned();
        self.pairs.iter().map(move |pair| pair.each_ref().map(name))
    }
}

/// Events that were lost where the trace was recorded, if a line says so: `CPU:1 [LOST 17 EVENTS]`
/// of tracefs, `CPU:1 [17 EVENTS DROPPED]` of trace-cmd, which may leave the number out, and
/// `PERF_RECORD_LOST lost 17` of perf.
pub(crate) fn lost_events(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let is_ftrace = text.starts_with("CPU:")
        && (text.ends_with(" EVENTS]") || text.ends_with("EVENTS DROPPED]"));
    let counted = match text.split_once("PERF_RECORD_LOST") {
        Some((_, behind)) => behind,
        None if is_ftrace => text.split_once('[')?.1,
        None => return None,
    };
    Some(counted.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(1))
}
