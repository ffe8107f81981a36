//! Mistakes in the fault of a member, with the exact answer to each.

/// The only fault of a delay, and what is said of it.
pub(super) const FAULT: &[(&str, &str)] = &[
    ("", "4: the fault has no kind (add one of slow, stall, error_rate, bad, dead)"),
    ("slwo = 4.0", "4: unknown key `slwo` in a fault (did you mean `slow`?)"),
    (
        r#"kind = "slow""#,
        "4: unknown key `kind` in a fault (one of slow, stall, error_rate, bad, dead, with `from` \
         and `until` or `at`; write for example fault = [{ slow = 4.0, from = \"10s\" }])",
    ),
    (
        "slow = 0.5",
        "4: `slow` is 0.5, but must be a factor from 1 to 1000000 (4.0 takes four times as long)",
    ),
    (r#"slow = "4""#, r#"4: `slow` must be a number, not `"4"`"#),
    (
        r#"slow = 2, at = "1s""#,
        "4: unknown key `at` in a fault (the known ones are slow, from, until)",
    ),
    (r#"slow = 2, stall = "1s""#, "4: `stall` contradicts `slow` (remove one of them)"),
    (
        r#"slow = 2, from = "3s", until = "2s""#,
        "4: the fault ends at 2.00s, before it begins at 3.00s (give a later `until`)",
    ),
    (
        r#"stall = "2s""#,
        "4: `stall` needs `at`, the time when it begins (for example { stall = \"2s\", at = \
         \"30s\" })",
    ),
    (
        r#"stall = 2, at = "1s""#,
        "4: `stall`: `2` has no unit: write for example 2s (the units are ns, us, \
         ms, s, m, h and d)",
    ),
    (
        "error_rate = 1.5",
        "4: `error_rate` is 1.5, but must be a probability from 0 to 1 (0.01 fails one \
         request in a hundred)",
    ),
    (
        r#"bad = { offset = "1GiB" }"#,
        "4: `bad` needs `offset` and `length` (for example { bad = { offset = \"1GiB\", length \
         = \"64K\" } })",
    ),
    (
        r#"bad = { offset = "2TiB", length = "64K" }"#,
        "4: the bad range ends after the end of the member, which has 1 TiB (reduce `offset` or \
         `length`)",
    ),
    (
        r#"bad = { ofset = "2TiB", length = "64K" }"#,
        "4: unknown key `ofset` in `bad` (did you mean `offset`?)",
    ),
    ("dead = false", "4: `dead` must be true in a fault (remove the entry)"),
];
