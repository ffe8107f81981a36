//! The declarations of a section of a job file about how it is judged.

use super::{Arrivals, Direction, JobContext, JobFile, Section};

/// Order of the directions in which a section is shown.
const DIRECTIONS: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

/// The declarations of a section about how it is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Declared {
    /// True for background load.
    pub is_background: bool,
    /// True if each kind of request that it makes comes at a rate of its own.
    pub has_rate: bool,
    /// Requests per second that it asks for, if it has a rate: reads if it reads, else writes, else
    /// trims. None if its requests differ in size, and the rate is one of bytes or, as in fio, is
    /// turned into one of bytes.
    pub asked_iops: Option<f64>,
}

impl Declared {
    /// The declarations of `section`.
    pub fn of(section: &Section) -> Declared {
        let directions = section.mix.directions();
        let has_rate = section.has_rate();
        let main = DIRECTIONS.into_iter().find(|direction| directions.contains(direction));
        let asked_iops = main.filter(|_| has_rate).and_then(|main| asked_iops(section, main));
        Declared { is_background: !section.counts, has_rate, asked_iops }
    }

    /// The declarations of the sections of a job text, by name; nothing if it cannot be read, as
    /// the text of an import may be.
    pub fn of_text(text: &str) -> Vec<(String, Declared)> {
        let file = JobFile::parse(text, "", &JobContext::empty());
        let sections = file.map_or(Vec::new(), |file| file.sections);
        sections.iter().map(|section| (section.name.clone(), Declared::of(section))).collect()
    }
}

/// Requests per second of all clones; a rate in bytes goes before one in requests.
fn asked_iops(section: &Section, direction: Direction) -> Option<f64> {
    let rate = match (section.rate_bytes_per_s[direction], &section.sizes[direction][..]) {
        (Some(bytes), [size]) => bytes as f64 / size.bytes as f64,
        (Some(_), _) => return None,
        (None, [_, _, ..]) if section.arrivals == Arrivals::Linear => return None,
        (None, _) => section.rate_ios_per_s[direction]? as f64,
    };
    Some(rate * f64::from(section.clones))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(text: &str) -> Declared {
        let text = format!("[global]\nbs=4k\nsize=1g\nrw=randrw\n{text}");
        Declared::of_text(&text)[0].1
    }

    #[test]
    fn a_section_asks_for_the_rate_of_all_its_clones() {
        assert_eq!(declared("[a]\nrate_iops=100,50\nnumjobs=3").asked_iops, Some(300.0));
        assert_eq!(declared("[a]\nrate=1m").asked_iops, Some(256.0));
        assert_eq!(declared("[a]\nrate=1m\nbssplit=4k/50:8k/50").asked_iops, None);
        let split = "bssplit=4k/80:64k/20\nrate_iops=300,200";
        assert_eq!(declared(&format!("[a]\n{split}")).asked_iops, None, "counted in the smallest");
        let poisson = format!("[a]\nrate_process=poisson\n{split}");
        assert_eq!(declared(&poisson).asked_iops, Some(300.0));
        assert_eq!(declared("[a]\nrate_iops=100,").asked_iops, None, "writes have no rate");
    }

    #[test]
    fn a_section_may_be_background_load() {
        assert!(declared("[a]\n; mirrorball: counts=no\n[b]").is_background);
        assert!(!declared("[a]").is_background);
    }

    #[test]
    fn a_section_has_a_rate_if_all_its_requests_do() {
        assert!(declared("[a]\nrate_iops=100").has_rate);
        assert!(!declared("[a]\nrate_iops=100,").has_rate);
        assert!(declared("[a]\nrw=randread\nrate_iops=100,").has_rate);
        assert!(!declared("[a]").has_rate);
        assert_eq!(Declared::of_text("no job at all"), []);
    }
}
