//! Files whose service fails. `tests/fuse.rs` tests files of a working service.

use super::*;
use crate::assemble::{Assembly, ExportMode, emulate_in_memory};
use crate::clock::Speed;
use std::fs::File;
use std::io::Read;

#[test]
fn abort_fails_pending_reads() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: this takes root and a kernel with FUSE");
        return;
    }
    let text = "profile = \"single\"\n[[member]]\nmodel = \"delay\"\nsize = \"8MiB\"\n";
    let Assembly { mut executor, exports, .. } =
        emulate_in_memory(text, ExportMode::Members, "first", Speed::REAL, None);
    let folder = tempfile::tempdir().unwrap();
    // Nothing runs the executor, so a read waits for ever.
    let (fuse, _) = Fuse::mount(folder.path(), exports, &mut executor).unwrap();
    let (_, path) = fuse.files().swap_remove(0);
    let mut file = File::open(path).unwrap();
    let reader = std::thread::spawn(move || file.read(&mut [0; 4096]));
    fuse.abort();
    assert!(reader.join().unwrap().is_err());
}
