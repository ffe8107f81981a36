//! The files of a new policy.

use crate::{C_HEADER, KERNEL_HEADER, TEST_HEADER};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TemplateFile {
    /// Name, in the folder of the policy.
    pub name: String,
    pub text: String,
}

/// The files of a policy called `name`: its source first, a Makefile, the headers and a test.
pub fn files(name: &str) -> Vec<TemplateFile> {
    let header = "mirrorball_policy.h";
    let source = format!("{name}.c");
    let file = |name: &str, text: String| TemplateFile { name: name.to_owned(), text };
    let makefile = include_str!("../template/Makefile")
        .replace("SOURCE", &source)
        .replace("INPUTS", &format!("{source} {header}"));
    vec![
        file(&source, include_str!("../template/policy.c").replace("NAME", name)),
        file("Makefile", makefile.replace("NAME", name)),
        file(header, C_HEADER.to_owned()),
        file("mirrorball_kernel.h", KERNEL_HEADER.to_owned()),
        file("mirrorball_test.h", TEST_HEADER.to_owned()),
        file(
            &format!("{name}_test.c"),
            include_str!("../template/policy_test.c").replace("NAME", name),
        ),
    ]
}
