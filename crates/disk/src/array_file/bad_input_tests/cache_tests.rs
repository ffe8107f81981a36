//! Mistakes in a cache: the table of a member, lines of an array, and what is said of them.

use super::{CONTROLLER, check};
use crate::array_file::ArrayFile;

/// The table of `cache`, and the error.
pub(super) const CACHE: &[(&str, &str)] = &[
    (
        "",
        "4: `cache` needs the `model` of its device (for example cache = { model = \
         \"ssd-sata-consumer\", size = \"240GB\" })",
    ),
    (r#"model = "delay", moed = "x""#, "4: unknown key `moed` in `cache` (did you mean `mode`?)"),
    (
        r#"model = "delay", mode = "writeback2""#,
        "4: unknown mode `writeback2` of a cache (did you mean `writeback`?)",
    ),
    (
        r#"model = "delay", size = "1MiB""#,
        "4: the cache has 1 MiB, which is too small (give 16 MiB or more)",
    ),
    (
        r#"model = "delay", warm = "120%""#,
        "4: `warm`: `120%` is not a percentage from 0% to 100%, such as \"20%\"",
    ),
    (
        r#"model = "delay", promote_after = 0"#,
        "4: `promote_after` is 0 (1 puts a block into the cache when it is missed)",
    ),
    (
        r#"model = "nothing""#,
        "4: there is no built-in model `nothing` (a model is a path ending in .toml, or one of \
         {models})",
    ),
];

/// A line at the top of a raid1 of two delays, and the error.
pub(super) const ARRAY_CACHE: &[(&str, &str)] = &[
    ("cache = \"1GiB\"", "1: `cache` must be a table, not `\"1GiB\"`"),
    (
        "cache = {}",
        "1: `[cache]` needs the `model` of its device (for example model = \"nvme-gen3\")",
    ),
    (
        r#"cache = { model = "delay", depth = 3 }"#,
        "1: unknown key `depth` in [cache] (the known ones are model, size, set, mode, \
         sequential_cutoff, promote_after, warm)",
    ),
    (
        r#"cache = { model = "delay", mode = "writethru" }"#,
        "1: unknown mode `writethru` of a cache (did you mean `writethrough`?)",
    ),
    (
        r#"cache = { model = "delay", size = "1MiB" }"#,
        "1: the cache has 1 MiB, which is too small (give 16 MiB or more)",
    ),
];

#[test]
fn mistakes_in_front_of_an_array() {
    let pair = "profile = \"raid1\"\n[[member]]\nmodel = \"delay\"\ncount = 2";
    for table in [CONTROLLER, ARRAY_CACHE] {
        check(table, |line| format!("{line}\n{pair}"));
    }
    for (key, value) in [("controller", "cache = \"1GiB\""), ("cache", "model = \"delay\"")] {
        let real = "profile = \"single\"\n[[member]]\npath = \"a\"";
        let text = format!("{key} = {{ {value} }}\n{real}");
        let error = ArrayFile::parse(&text, "a.toml").expect_err(key).to_string();
        let expected = format!("`[{key}]` is a model, but the array has real members");
        assert!(error.contains(&expected), "{error}");
    }
}
