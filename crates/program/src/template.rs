//! The files of a new policy in C.

use crate::C_HEADER;

/// A file of a new policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TemplateFile {
    /// Its name, in the folder of the policy.
    pub name: String,
    /// What it contains.
    pub text: String,
}

/// The files of a policy called `name`: its source, the header, and a Makefile.
pub fn files(name: &str) -> [TemplateFile; 3] {
    let of_name = |text: &str| text.replace("NAME", name);
    [
        TemplateFile {
            name: format!("{name}.c"),
            text: of_name(include_str!("../template/policy.c")),
        },
        TemplateFile { name: "mirrorball_policy.h".to_owned(), text: C_HEADER.to_owned() },
        TemplateFile {
            name: "Makefile".to_owned(),
            text: of_name(include_str!("../template/Makefile")),
        },
    ]
}
