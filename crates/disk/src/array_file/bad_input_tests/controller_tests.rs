//! Mistakes in `[controller]`: a line at the top of a raid1 of two delays, and what is said of it.

/// See [`super::TOP`].
pub(super) const CONTROLLER: &[(&str, &str)] = &[
    ("controller = 3", "1: `controller` must be a table, not `3`"),
    (
        "controller = {}",
        "1: the controller has no `cache` (add its size, for example cache = \"1GiB\")",
    ),
    (
        r#"controller = { cache = "1GiB", battery = true }"#,
        "1: unknown key `battery` in [controller] (the known ones are cache, high_mark, low_mark, \
         depth)",
    ),
    (
        r#"controller = { cache = "1MiB" }"#,
        "1: `cache` is 1 MiB, which is too small (give 16 MiB or more)",
    ),
    (
        r#"controller = { cache = "1GiB", high_mark = "20%", low_mark = "30%" }"#,
        "1: `low_mark` is 30%, above the `high_mark` of 20% (write-back starts at the high mark \
         and stops at the low one)",
    ),
    (
        r#"controller = { cache = "1GiB", high_mark = 0.5 }"#,
        "1: `high_mark`: `0.5` is not a percentage from 0% to 100%, such as \"75%\"",
    ),
    (r#"controller = { cache = "1GiB", depth = 0 }"#, "1: `depth` is 0 (give 1 to 4096)"),
];
