//! Addresses of members on the command line.

use crate::ending::Failure;
use crate::screen;
use anyhow::anyhow;
use mirrorball_disk::array_file::{ArraySpec, MemberSource};
use mirrorball_io::device_address::DeviceAddress;
use std::path::Path;

/// Reads paths and URIs.
pub(crate) fn parse<'a>(
    texts: impl IntoIterator<Item = &'a String>,
) -> Result<Vec<DeviceAddress>, Failure> {
    let parse = |text: &String| {
        if text.is_empty() {
            let text = "the path of a device is empty\n  help: check that the shell variable in \
                        its place is set";
            return Err(Failure::WrongUse(anyhow!(text)));
        }
        DeviceAddress::parse(text).map_err(|error| Failure::WrongUse(anyhow!("{error}")))
    };
    texts.into_iter().map(parse).collect()
}

/// The files and block devices of a folder.
pub(crate) fn scan(folder: &Path) -> Result<Vec<DeviceAddress>, Failure> {
    let found = DeviceAddress::in_folder(folder);
    found.map_err(|error| {
        let folder = folder.display();
        let help = "give a folder with members that you may read, for example /dev";
        Failure::WrongUse(anyhow!("cannot scan `{folder}`: {error}\n  help: {help}"))
    })
}

pub(crate) fn report_wait(path: &Path) {
    let path = path.display();
    screen::say(format_args!(
        "waiting for `{path}`: the server that had it open has ended, and the kernel has not \
         released it yet"
    ));
}

/// The members and spares of an array file, whose paths are relative to its folder.
pub(crate) fn of_array(array: &ArraySpec) -> Result<Vec<DeviceAddress>, Failure> {
    let folder = Path::new(&array.file_name).with_file_name("");
    let sources = array.members.iter().map(|member| &member.source).chain(&array.spares);
    let texts = sources.map(|source| match source {
        MemberSource::Path(path) => folder.join(path).display().to_string(),
        MemberSource::Uri(uri) => uri.clone(),
        MemberSource::Model(_) => String::new(),
    });
    parse(&texts.collect::<Vec<String>>())
}
