//! Mistakes in the cache of a member: its table, and what is said of it.

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
