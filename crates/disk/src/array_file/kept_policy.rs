//! The table `[policy]` of an array file: the policy that a volume without labels starts with.
//!
//! `ctl policy NAME --keep` writes it, and leaves the rest of the file as it is, comments included.
//! It does not change a simulation, whose policies are those of a comparison, so it is no part of
//! the canonical text.

use super::reader::TomlSection;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::label::KeptProgram;
use mirrorball_core::policies::Spec;
use toml_edit::{DocumentMut, Item, Table, Value};

/// A policy that a volume starts with, as array files and labels record it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPolicy {
    /// The policy; for a program, its fallback.
    pub policy: String,
    /// The program.
    pub program: Option<KeptProgram>,
}

/// Reads `[policy]`, if the file has it.
pub(super) fn read_kept_policy(root: &TomlSection<'_>) -> Result<Option<KeptPolicy>, Diagnostic> {
    let Some(section) = root.table("policy", "[policy]")? else { return Ok(None) };
    section.allow_only(&["name", "program", "object", "faulted"])?;
    let text = |key| Ok(section.printable_text(key)?.map(|at| at.value.to_owned()));
    let missing = |what: &str| {
        section.error(what).with_help("`mirrorball ctl policy NAME --keep` writes this table")
    };
    let policy = text("name")?.ok_or_else(|| missing("the policy has no `name`"))?;
    let program = match (text("program")?, text("object")?) {
        (Some(reference), Some(name)) => {
            let has_faulted = section.flag("faulted")?.unwrap_or(false);
            Some(KeptProgram { reference, name, has_faulted })
        }
        (None, None) => None,
        _ => return Err(missing("the policy has one of `program` and `object`, but not both")),
    };
    Ok(Some(KeptPolicy { policy, program }))
}

impl KeptPolicy {
    /// The record of a policy. `reference` names the file of its program, if it is one.
    ///
    /// # Errors
    /// If the fallback of the program is unknown.
    pub fn new(spec: &Spec, reference: &str) -> Result<KeptPolicy, Diagnostic> {
        let policy = spec.fallback()?.map_or_else(|| spec.to_string(), |it| it.to_string());
        let program = spec.program().map(|program| KeptProgram {
            reference: reference.to_owned(),
            name: program.name().to_owned(),
            has_faulted: false,
        });
        Ok(KeptPolicy { policy, program })
    }

    /// The text of an array file with this policy in place of the one that it has, if any.
    ///
    /// # Errors
    /// If the text is not TOML.
    pub fn put_into(&self, text: &str) -> Result<String, Diagnostic> {
        let mut file: DocumentMut = text
            .parse()
            .map_err(|error: toml_edit::TomlError| Diagnostic::new(error.message().to_owned()))?;
        let table = file.entry("policy").or_insert_with(|| Item::Table(Table::new()));
        // A table that is written within braces is as good.
        let Some(table) = table.as_table_like_mut() else {
            return Err(Diagnostic::new("`policy` is not a table"));
        };
        let program = self.program.as_ref();
        let fields = [
            ("name", Some(Value::from(&self.policy))),
            ("program", program.map(|it| Value::from(&it.reference))),
            ("object", program.map(|it| Value::from(&it.name))),
            ("faulted", program.filter(|it| it.has_faulted).map(|_| Value::from(true))),
        ];
        for (key, value) in fields {
            match (value, table.get_mut(key)) {
                (None, _) => {
                    table.remove(key);
                }
                (Some(mut value), Some(Item::Value(old))) => {
                    // Spaces and a comment after the value stay.
                    *value.decor_mut() = old.decor().clone();
                    *old = value;
                }
                (Some(value), _) => {
                    table.insert(key, Item::Value(value));
                }
            }
        }
        // The library ends every line by a line feed.
        let changed = file.to_string();
        let has_carriage_returns =
            text.contains("\r\n") && !text.replace("\r\n", "").contains('\n');
        Ok(if has_carriage_returns { changed.replace('\n', "\r\n") } else { changed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array_file::ArrayFile;

    const FILE: &str = "# two files\nprofile = \"raid1\"\n\n[[member]]\npath = \"/a\" # fast\n\n\
                        [[member]]\npath = \"/b\"\n";

    fn kept(text: &str) -> Option<KeptPolicy> {
        ArrayFile::parse(text, "pair.toml").unwrap().spec.policy
    }

    #[test]
    fn a_policy_is_added_and_replaced_and_the_rest_of_the_file_stays() {
        assert_eq!(kept(FILE), None);
        let builtin = KeptPolicy { policy: "md/raid1".to_owned(), program: None };
        let text = builtin.put_into(FILE).unwrap();
        assert_eq!(text, format!("{FILE}\n[policy]\nname = \"md/raid1\"\n"));
        assert_eq!(kept(&text), Some(builtin.clone()));
        let program = KeptProgram {
            reference: "program:/a.wasm?gain=4".to_owned(),
            name: "program/a@00".to_owned(),
            has_faulted: true,
        };
        let policy = "dm/queue-length".to_owned();
        let program = KeptPolicy { policy, program: Some(program) };
        let commented = text.replace("raid1\"\n\n[policy]", "raid1\"\n\n# ours\n[policy]");
        let commented = commented.replace("md/raid1\"", "md/raid1\" # why");
        let text = program.put_into(&commented).unwrap();
        assert!(text.starts_with(FILE), "{text}");
        assert!(text.contains("name = \"dm/queue-length\" # why"), "{text}");
        assert_eq!(kept(&text), Some(program));
        // A built-in policy leaves nothing of the program.
        let text = builtin.put_into(&text).unwrap();
        assert_eq!(text, commented);
    }

    #[test]
    fn every_way_of_writing_a_table_is_kept() {
        let members = "[[member]]\r\npath = \"/a\"\r\n[[member]]\r\npath = \"/b\"";
        for (written, expected) in [
            ("", None),
            (
                "policy = { name = \"btrfs/pid\" } # ours\r\n",
                Some("{ name = \"md/raid1\" } # ours"),
            ),
            ("policy.name = 'btrfs/pid'\r\n", Some("policy.name = \"md/raid1\"\r\n")),
            ("[policy]\r\nname = 'btrfs/pid'\r\n", Some("[policy]\r\nname = \"md/raid1\"\r\n[[")),
        ] {
            let text = format!("profile = \"raid1\"\r\n{written}{members}");
            let policy = KeptPolicy { policy: "md/raid1".to_owned(), program: None };
            let changed = policy.put_into(&text).unwrap();
            assert_eq!(kept(&changed), Some(policy), "{changed}");
            assert!(changed.contains(members), "{changed}");
            assert!(expected.is_none_or(|expected| changed.contains(expected)), "{changed}");
        }
    }

    #[test]
    fn half_a_policy_is_refused() {
        for (table, part) in [
            ("[policy]\n", "has no `name`"),
            ("[policy]\nname = \"pid\"\nprogram = \"program:/a\"\n", "but not both"),
            ("[policy]\nnames = \"pid\"\n", "names"),
            ("policy = 3\n", "policy"),
        ] {
            let text = match table.starts_with('[') {
                true => format!("{FILE}{table}"),
                false => format!("{table}{FILE}"),
            };
            let error = ArrayFile::parse(&text, "pair.toml").unwrap_err().to_string();
            assert!(error.contains(part), "{table}: {error}");
        }
    }
}
