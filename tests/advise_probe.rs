//! `mirrorball advise --probe`: what it refuses, and an emulated disk that is measured.

use crate::common::external::skip_unless;
use crate::common::service::Service;
use crate::common::{Folder, noise, stderr, stdout};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const MD: &str = "layout = \"md-raid1\"\n[source]\nsystem = \"md\"\nname = \"md-of-a-test\"\n";

/// Writes an array file of md raid1 with these keys of its members.
fn pair(folder: &Folder, head: &str, members: [&str; 2]) {
    let members = members.map(|keys| format!("[[member]]\nmodel = \"ssd-sata-plp\"\n{keys}\n"));
    fs::write(folder.path("pair.toml"), format!("{MD}{head}\n{}", members.concat())).unwrap();
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_read() {
    let folder = Folder::new();
    let probe = ["advise", "pair.toml", "rand-4k-qd1", "--probe"];
    pair(&folder, "", ["", "device = \"/dev/no-such-disk\""]);
    let none = ["no disk of pair can be measured", "names no device of devid 1", "no such file"];
    folder.refuses(&probe, &none);
    folder.refuses(&[&probe[..], &["-o", "a.txt"]].concat(), &["ends in .toml", "a.txt.toml"]);
    folder.refuses(&[&probe[..], &["--system", "zfs"]].concat(), &["--system zfs"]);
    folder.refuses(&["advise", "pair.toml", "-o", "a.toml"], &["--probe"]);
    folder.refuses(&["advise", "--probe", "--sysroot", "."], &["cannot be used with"]);
    folder.refuses(&["advise", "-", "--probe"], &["a pasted text has none", "on their machine"]);
    folder.refuses(&["advise", "pair.toml", "no-such-job", "--probe"], &["no-such-job"]);

    let busy = "condition = \"degraded, 1 member out of service; resync at 12.0 %\"";
    pair(&folder, busy, ["", ""]);
    let output = folder.run(&probe);
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(error.contains("pair is not idle (resync at 12.0 %, as its file says)"), "{error}");

    let paths = "layout = \"md-raid1\"\n[source]\nsystem = \"nvme\"\n[[member]]\n\
                 model = \"nvme-gen3\"\ncount = 2\n";
    fs::write(folder.path("paths.toml"), paths).unwrap();
    folder.refuses(&["advise", "paths.toml", "--probe"], &["members of paths are paths to one"]);
    assert!(!folder.path("mirrorball-results").exists());
}

#[test]
fn a_disk_of_another_size_is_another_disk() {
    let folder = Folder::new();
    fs::write(folder.path("disk.img"), noise(257 << 20)).unwrap();
    let device = format!("device = \"{}\"", folder.path("disk.img").display());
    let stated = format!("{device}\nsize = \"1TB\"");
    pair(&folder, "", [&stated, &stated]);
    let refused = ["has 257 MiB (269484032 bytes), but the array file says", "another disk"];
    let output = folder.run(&["advise", "pair.toml", "rand-4k-qd1", "--probe"]);
    let error = stderr(&output);
    let has_no_direct_reads = error.contains("its file system has no direct reads");
    assert!(has_no_direct_reads || refused.iter().all(|it| error.contains(it)), "{error}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn an_interrupted_measurement_keeps_what_it_has() {
    if !skip_unless(Path::new("/dev/fuse").exists(), "this kernel has no /dev/fuse") {
        return;
    }
    let folder = Folder::new();
    let emulate = ["emulate", "ssd-sata-consumer", "--size", "300M", "--backing", "disk"];
    let server = Service::start(&folder, &[&emulate[..], &["--export", "fuse:mount"]].concat());
    // A drive whose blocks are empty is refused.
    let mut volume = fs::File::options().write(true).open(folder.path("mount/volume")).unwrap();
    volume.write_all(&noise(300 * 1024 * 1024)).unwrap();
    drop(volume);
    let device = format!("device = \"{}\"", folder.path("mount/volume").display());
    pair(&folder, "", [&device, "device = \"/dev/no-such-disk\""]);
    let probe = ["advise", "pair.toml", "rand-4k-qd1", "--probe=quick", "-o", "fitted.toml"];
    let mut run = folder.command(&probe).stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let run = run.as_mut().unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap());
    let mut said = String::new();
    // The steps at these depths take 14 s together. One that ends between two reports is not said.
    let depths = ["  random-qd2 ", "  random-qd4 ", "  random-qd8 "];
    while !depths.iter().any(|step| said.contains(step)) {
        assert_ne!(lines.read_line(&mut said).unwrap(), 0, "it ended with\n{said}");
    }
    assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    lines.read_to_string(&mut said).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{said}");
    server.terminate();
    assert!(
        said.contains("warning: devid 2 is not measured: cannot probe `/dev/no-such"),
        "{said}"
    );
    assert!(said.contains("measuring pair: 1 disk, at most 60 s, reads only"), "{said}");
    assert!(said.contains("keeping what was measured; press Ctrl-C again"), "{said}");
    // On a machine that is busy with other tests a disk looks slower than it is: like one behind a
    // network, of which this is too little, or like no model.
    let Ok(profile) = fs::read_to_string(folder.path("fitted-devid1.toml")) else {
        assert!(said.contains("warning: devid 1, ") && said.contains("not measured"), "{said}");
        return;
    };
    // Which step it was in when it heard of it depends on the machine, too.
    assert!(profile.contains("not measured: random-qd"), "{profile}");
    if profile.contains("# Verdict: doubtful") {
        assert!(said.contains("it is not used; what was measured is in "), "{said}");
        return;
    }
    assert!(said.contains("what was measured is described in fitted.toml"), "{said}");
    let more = ["advise", "fitted.toml", "rand-4k-qd1", "-n", "2", "-d", "50ms", "-p", "first"];
    let text = stdout(&folder.run(&more));
    assert!(text.contains("simulated as volume (fitted"), "{text}");
    folder.refuses(&probe, &["fitted.toml already exists", "--force"]);
}
