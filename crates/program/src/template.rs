//! The files of a new policy, in C or in Rust.

use crate::{C_HEADER, KERNEL_HEADER, TEST_HEADER};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// C, compiled by clang.
    C,
    /// Rust without its standard library.
    Rust,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TemplateFile {
    /// Name, in the folder of the policy.
    pub name: String,
    pub text: String,
}

/// The files of a policy called `name`: its source first, a Makefile, and for C the headers and a
/// test.
pub fn files(name: &str, language: Language) -> Vec<TemplateFile> {
    let header = "mirrorball_policy.h";
    let (ending, text) = match language {
        Language::C => ("c", include_str!("../template/policy.c")),
        Language::Rust => ("rs", include_str!("../template/policy.rs")),
    };
    let source = format!("{name}.{ending}");
    let inputs = match language {
        Language::C => format!("{source} {header}"),
        Language::Rust => source.clone(),
    };
    let makefile = match language {
        Language::C => concat!(
            include_str!("../template/Makefile"),
            "\n",
            include_str!("../template/Makefile.c")
        ),
        Language::Rust => include_str!("../template/Makefile"),
    };
    let makefile = makefile.replace("SOURCE", &source).replace("INPUTS", &inputs);
    let file = |name: &str, text: String| TemplateFile { name: name.to_owned(), text };
    let mut files = vec![
        file(&source, text.replace("NAME", name)),
        file("Makefile", makefile.replace("NAME", name)),
    ];
    if language == Language::C {
        files.push(file(header, C_HEADER.to_owned()));
        files.push(file("mirrorball_kernel.h", KERNEL_HEADER.to_owned()));
        files.push(file("mirrorball_test.h", TEST_HEADER.to_owned()));
        let test = include_str!("../template/policy_test.c");
        files.push(file(&format!("{name}_test.c"), test.replace("NAME", name)));
    }
    files
}
