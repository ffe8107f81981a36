//! The texts that a label has room for.

use mirrorball_core::label::{
    NAME_BYTES_MAX, POLICY_BYTES_MAX, PROGRAM_NAME_BYTES_MAX, PROGRAM_REFERENCE_BYTES_MAX,
};
use mirrorball_disk::array_file::KeptPolicy;

/// Checks that a label has room for a policy; the error says what is too long.
pub(crate) fn check_policy(kept: &KeptPolicy) -> Result<(), String> {
    fits("the policy", &kept.policy, POLICY_BYTES_MAX)?;
    let Some(program) = &kept.program else { return Ok(()) };
    let reference = &program.reference;
    fits("the path of the program with its parameters", reference, PROGRAM_REFERENCE_BYTES_MAX)?;
    fits("the name of the program", &program.name, PROGRAM_NAME_BYTES_MAX)
}

/// Checks that a volume may have this name; the error says why not, and what to do.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let help = "\n  help: give another one with --name";
    if name.is_empty() {
        return Err(format!("the name is empty{help}"));
    }
    if name.len() > NAME_BYTES_MAX {
        let (length, most) = (name.len(), NAME_BYTES_MAX);
        return Err(format!("the name has {length} bytes, but may have {most}{help}"));
    }
    for (letter, what) in [('/', "a slash"), ('\n', "a line end")] {
        if name.contains(letter) {
            return Err(format!("`{name}` contains {what}{help}"));
        }
    }
    Ok(())
}

fn fits(what: &str, text: &str, most: usize) -> Result<(), String> {
    match text.len() {
        bytes if bytes <= most => Ok(()),
        bytes => Err(format!("{what} has {bytes} bytes, but a label holds {most}")),
    }
}
