//! A recorded machine that stands for this one, with a fio.

use crate::common::Folder;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(super) const POLICY_BEFORE: &str = "[pid] round-robin:262144 devid:1\n";

/// A copy of a recorded machine, and a fio.
pub(super) struct Machine {
    pub(super) folder: Folder,
}

impl Machine {
    /// A btrfs whose kernel offers all policies.
    pub(super) fn btrfs() -> Machine {
        let machine = Machine::copy_of("btrfs-raid1-three");
        fs::write(machine.read_policy(), POLICY_BEFORE).unwrap();
        fs::create_dir_all(machine.path("srv/data")).unwrap();
        machine
    }

    /// An md raid1 of a hard disk and an SSD.
    pub(super) fn md() -> Machine {
        let machine = Machine::copy_of("md-raid1-hdd-ssd");
        fs::create_dir_all(machine.path("srv/data")).unwrap();
        machine
    }

    pub(super) fn copy_of(name: &str) -> Machine {
        let machine = Machine { folder: Folder::new() };
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots");
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(recorded.join(name)).arg(machine.folder.path("root"));
        assert!(copy.status().unwrap().success());
        let at_rest = |name| format!("8 0 {name} 0 0 0 0 0 0 0 0 0 9 9\n");
        let at_rest = ["sda", "sdb", "sdg", "sdh", "sdi"].map(at_rest).concat();
        fs::write(machine.path("proc/diskstats"), at_rest).unwrap();
        machine.fio("");
        machine
    }

    /// A fio that does `more`, lets the disks count as after `$runs` runs, and prints a result.
    pub(super) fn fio(&self, more: &str) {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../lab/src/experiment/import/fio/fixtures/single.json");
        let bin = self.folder.path("bin");
        fs::create_dir_all(&bin).unwrap();
        let count = "for disk in 'sda 1' 'sdb 3' 'sdg 1' 'sdh 1' 'sdi 0'; do set -- $disk; \
            r=$((runs * $2 * 900)); echo \"8 0 $1 $r 0 $((8 * r)) $((2 * r)) 0 0 0 0 0 9 9\"; done";
        let script = format!(
            "#!/bin/sh\nset -e\nfor job; do :; done\ngrep -q '^filename=' \"$job\"\n\
             echo run >> '{runs}'\nruns=$(wc -l < '{runs}')\n{more}\n{count} > '{}'\ncat '{}'\n",
            self.path("proc/diskstats").display(),
            fixture.display(),
            runs = self.folder.path("runs-of-fio").display(),
        );
        let path = bin.join("fio");
        fs::write(&path, script).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path("root").join(name)
    }

    pub(super) fn read_policy(&self) -> PathBuf {
        let mut file_systems = fs::read_dir(self.path("sys/fs/btrfs")).unwrap();
        let is_fsid = |path: &PathBuf| path.join("read_policy").exists();
        file_systems
            .find_map(|it| Some(it.unwrap().path()).filter(is_fsid))
            .unwrap()
            .join("read_policy")
    }

    /// Gives the btrfs another UUID; returns the old one and the new one.
    pub(super) fn rename_file_system(&self) -> (String, String) {
        let folder = self.read_policy().parent().unwrap().to_owned();
        let fsid = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let other = "11111111-2222-3333-4444-555555555555".to_owned();
        fs::rename(&folder, folder.with_file_name(&other)).unwrap();
        (fsid, other)
    }

    /// The state of a member of md0.
    pub(super) fn state(&self, member: &str) -> String {
        let path = format!("sys/devices/virtual/block/md0/md/dev-{member}/state");
        fs::read_to_string(self.path(&path)).unwrap()
    }

    pub(super) fn bench(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// `bench`, with windows and a bound that do not matter to a fio that ends at once.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let root = self.path("").display().to_string();
        let usual = ["--size", "1MiB", "--lateness-max", "1h", "--sysroot", &root];
        let mut command = self.folder.command(&[&["bench"], arguments, &usual].concat());
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.folder.path("bin").display()));
        command
    }

    /// Journals and folders that a bench left.
    pub(super) fn left(&self) -> Vec<String> {
        let names = |path: PathBuf| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap())
        };
        let journals = names(self.path("var/lib/mirrorball/bench"));
        let journals = journals.filter(|name| name.ends_with(".journal"));
        journals.chain(names(self.path("srv/data"))).collect()
    }

    pub(super) fn saved(&self, folder: &str) -> usize {
        let cells = fs::read_dir(self.folder.path(folder).join("cells"));
        cells.into_iter().flatten().count()
    }

    pub(super) fn policy(&self) -> String {
        fs::read_to_string(self.read_policy()).unwrap()
    }
}
