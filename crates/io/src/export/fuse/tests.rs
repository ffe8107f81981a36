//! Files whose service fails. `tests/fuse.rs` tests files of a working service.

use super::*;
use crate::assemble::{Assembly, Backing, EmulateOptions, ExportMode, emulate};
use crate::clock::Speed;
use mirrorball_core::policies::Spec;
use mirrorball_disk::array_file::ArrayFile;
use std::fs::File;
use std::io::Read;

#[test]
fn abort_fails_pending_reads() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: this takes root and a kernel with FUSE");
        return;
    }
    let text = "profile = \"single\"\n[[member]]\nmodel = \"delay\"\nsize = \"8MiB\"\n";
    let array = ArrayFile::parse(text, "disk").unwrap().spec;
    let assembly = emulate(EmulateOptions {
        array: &array,
        shape: ExportMode::Members,
        policy_name: None,
        policy: Spec::parse("first").unwrap().build(&[1]).unwrap(),
        backing: Backing::Memory,
        speed: Speed::REAL,
        seed: 1,
        backend: None,
    });
    let Assembly { mut executor, exports, .. } = assembly.unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Nothing runs the executor, so a read waits for ever.
    let (fuse, _) = Fuse::mount(folder.path(), exports, &mut executor).unwrap();
    let (_, path) = fuse.files().swap_remove(0);
    let mut file = File::open(path).unwrap();
    let reader = std::thread::spawn(move || file.read(&mut [0; 4096]));
    fuse.abort();
    assert!(reader.join().unwrap().is_err());
}
