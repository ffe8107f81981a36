//! The canonical text of an array: what decides the results of a simulation, and nothing else.
//!
//! Fingerprints hash this text: the array with every value resolved and defaults written out. So
//! two files that differ in comments, in layout, in the name of the array or in where they are
//! stored have the same canonical text. A field that is added to an array belongs to it unless it
//! is left out here.
//!
//! A model has both its parameters and the values that its profile writes for them: `1.4ms` and
//! `1400us` differ, which costs a repeated simulation and never a stale result. Published figures
//! are left out, because they describe real disks and do not change a model.

use super::spec::{ArraySpec, MemberSource, MemberSpec};
use crate::cache_tier::CacheSpec;

impl ArraySpec {
    /// The canonical text. Equal texts give equal simulations.
    pub fn canonical_text(&self) -> String {
        let mut array = ArraySpec {
            name: String::new(),
            file_name: String::new(),
            source: None,
            spares: Vec::new(),
            ..self.clone()
        };
        array.members.iter_mut().for_each(MemberSpec::leave_out_texts);
        array.cache.iter_mut().for_each(|cache| cache.leave_out_texts());
        format!("{array:#?}")
    }
}

impl MemberSpec {
    fn leave_out_texts(&mut self) {
        (self.device, self.kernel_name, self.errors) = (None, None, None);
        (self.confidence, self.line) = (None, 0);
        self.cache.iter_mut().for_each(|cache| cache.leave_out_texts());
        if let MemberSource::Model(profile) = &mut self.source {
            **profile = profile.canonical();
        }
    }
}

impl CacheSpec {
    fn leave_out_texts(&mut self) {
        self.device = self.device.canonical();
    }
}

#[cfg(test)]
mod tests {
    use crate::array_file::ArrayFile;

    const ARRAY: &str = r#"
        profile = "raid10"
        stripe_width_max = 4
        used = "60%"
        [host]
        overhead = { mean = "15.01us", jitter = "10%" }
        read_ahead_kb = 128
        cpus = 8
        [[link]]
        name = "hba"
        read = "200MB/s"
        write = "190MB/s"
        latency = "10us"
        jitter = "5us"
        [[member]]
        model = "hdd-5k4"
        count = 3
        size = "300GB"
        begin = "512MiB"
        length = "200GiB"
        link = "hba"
        set = { rpm = 4200 }
        cache = { model = "nvme-gen3", size = "480GB", sequential_cutoff = "8MiB", warm = "20%" }
        [[member]]
        model = "delay"
        devid = 9
        rotational = true
        optimal_io = "128K"
        priority = 3
        write_mostly = true
        rebuilding = "500GB"
        fault = [
            { slow = 4.0, from = "10s", until = "20s" },
            { stall = "2s", at = "30s" },
            { error_rate = 0.001, from = "11s" },
            { bad = { offset = "1GiB", length = "64K" } },
            { dead = true, from = "40s" },
        ]
    "#;

    fn canonical(text: &str, file_name: &str) -> String {
        ArrayFile::parse(text, file_name).expect(text).spec.canonical_text()
    }

    #[test]
    fn name_place_and_layout_of_a_file_are_not_part_of_the_canonical_text() {
        let text = canonical(ARRAY, "here/a.toml");
        let other =
            format!("name = \"other\" # a comment\n\n{ARRAY}").replace("15.01us", "15010ns");
        let other = other.replace("128K", "131072");
        assert_eq!(canonical(&other, "there/b.toml"), text);
    }

    #[test]
    fn every_value_that_decides_results_is_part_of_the_canonical_text() {
        let text = canonical(ARRAY, "a.toml");
        for (from, to) in [
            ("raid10", "raid0"),
            ("stripe_width_max = 4", ""),
            ("60%", "61%"),
            ("60%", "60GB"),
            ("15.01us", "15.02us"),
            ("jitter = \"10%\"", "jitter = \"11%\""),
            ("read_ahead_kb = 128", "read_ahead_kb = 129"),
            ("cpus = 8", "cpus = 9"),
            ("hba", "bus"),
            ("200MB/s", "201MB/s"),
            ("190MB/s", "191MB/s"),
            ("10us", "11us"),
            ("jitter = \"5us\"", ""),
            ("hdd-5k4", "hdd-15k"),
            ("count = 3", "count = 4"),
            ("300GB", "301GB"),
            ("begin = \"512MiB\"", ""),
            ("length = \"200GiB\"", ""),
            ("link = \"hba\"", ""),
            ("4200", "4300"),
            ("nvme-gen3", "nvme-gen4"),
            ("480GB", "481GB"),
            ("8MiB", "9MiB"),
            ("20%", "21%"),
            ("warm", "mode = \"writearound\", warm"),
            ("warm", "promote_after = 2, warm"),
            ("devid = 9", "devid = 8"),
            ("rotational = true", ""),
            ("128K", "129K"),
            ("priority = 3", "priority = 4"),
            ("write_mostly = true", ""),
            ("rebuilding = \"500GB\"", "failed = true"),
            ("500GB", "501GB"),
            ("slow = 4.0", "slow = 4.1"),
            ("from = \"10s\"", "from = \"10.5s\""),
            ("until = \"20s\"", ""),
            ("stall = \"2s\"", "stall = \"2.001s\""),
            ("30s", "31s"),
            ("0.001", "0.0011"),
            ("1GiB", "2GiB"),
            ("64K", "65K"),
            ("40s", "41s"),
        ] {
            let changed = ARRAY.replace(from, to);
            assert_ne!(changed, ARRAY, "{from}");
            assert_ne!(canonical(&changed, "a.toml"), text, "{from} -> {to}");
        }
    }

    #[test]
    fn a_cache_in_front_of_the_array_is_part_of_the_canonical_text() {
        let with = |cache: &str| canonical(&format!("cache = {{ {cache} }}\n{ARRAY}"), "a.toml");
        let texts = [
            canonical(ARRAY, "a.toml"),
            with("model = \"nvme-gen3\""),
            with("model = \"nvme-gen4\""),
            with("model = \"nvme-gen3\", size = \"100GB\""),
            with("model = \"nvme-gen3\", mode = \"writeback\""),
            with("model = \"nvme-gen3\", sequential_cutoff = \"0\""),
            with("model = \"nvme-gen3\", promote_after = 2"),
            with("model = \"nvme-gen3\", warm = \"1%\""),
        ];
        for (index, text) in texts.iter().enumerate() {
            assert!(!texts[..index].contains(text), "{text}");
        }
        assert_eq!(with("model = \"nvme-gen3\", mode = \"writethrough\""), texts[1]);
    }

    #[test]
    fn the_layout_and_its_chunk_are_part_of_the_canonical_text() {
        let members = "[[member]]\nmodel = \"delay\"\ncount = 4\n";
        let texts = [
            "profile = \"raid10\"\n",
            "layout = \"md-raid10-near:2\"\n",
            "layout = \"md-raid10-far:2\"\n",
            "layout = \"md-raid10-far:3\"\n",
            "layout = \"md-raid10-far:2\"\nchunk = \"64K\"\n",
            "layout = \"zfs-mirror:2\"\n",
            "layout = \"md-raid1\"\n",
            "layout = \"lvm-raid1\"\n",
            "layout = \"gmirror\"\n",
            "profile = \"raid1c4\"\n",
        ]
        .map(|layout| canonical(&format!("{layout}{members}"), "a.toml"));
        for (index, text) in texts.iter().enumerate() {
            assert!(!texts[..index].contains(text), "{text}");
        }
        for (written, same) in [
            ("layout = \"btrfs\"\nprofile = \"raid10\"\n", 0),
            ("layout = \"md-raid10-far\"\nprofile = \"raid10\"\nchunk = \"512K\"\n", 2),
        ] {
            assert_eq!(canonical(&format!("{written}{members}"), "a.toml"), texts[same]);
        }
    }
}
