//! Outputs of the tools of storage systems: run on this machine, or recorded in `tools/` of a copy.

use super::live;
use super::sysroot::Sysroot;

/// A tool, its arguments, and the name of the file with its recorded output.
pub(super) struct Tool {
    pub(super) file: &'static str,
    pub(super) command: &'static [&'static str],
}

pub(super) const DMSETUP_TABLE: Tool =
    Tool { file: "dmsetup-table", command: &["dmsetup", "table"] };
pub(super) const DMSETUP_STATUS: Tool =
    Tool { file: "dmsetup-status", command: &["dmsetup", "status"] };
pub(super) const ZPOOL_STATUS: Tool =
    Tool { file: "zpool-status", command: &["zpool", "status", "-LP"] };
pub(super) const ZPOOL_LIST: Tool =
    Tool { file: "zpool-list", command: &["zpool", "list", "-vHp", "-o", "name,size,allocated"] };
pub(super) const BTRFS_SHOW: Tool = Tool {
    file: "btrfs-filesystem-show",
    command: &["btrfs", "filesystem", "show", "--mounted", "--raw"],
};

impl Sysroot {
    pub(super) fn tool(&self, tool: &Tool) -> Result<String, String> {
        self.tool_output(tool.file, tool.command)
    }

    /// The output of a command, or what `file` of a recorded copy has of it.
    pub(crate) fn tool_output(&self, file: &str, command: &[&str]) -> Result<String, String> {
        if self.is_live() {
            return live::run(command);
        }
        let missing = || match self.is_pasted() {
            true => format!("the text has no output of `{}`", command.join(" ")),
            false => format!("the recorded copy has no tools/{file}"),
        };
        self.raw_text(&format!("/tools/{file}")).ok_or_else(missing)
    }
}
