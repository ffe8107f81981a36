//! A crash at the end of a rebuild: the label that says so is on the rebuilt member alone.

use super::*;
use mirrorball_core::member::MemberState;
use mirrorball_store::label::{LABEL_SLOTS, Label, METADATA_BYTES, newest_label};

/// A volume of which `b.img` was rebuilt from `a.img`, which does not know that it has all data;
/// and the UUID of `a.img`.
fn interrupted() -> (Folder, String) {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[1; BLOCK]);
    service.terminate();
    let images = ["a.img", "b.img"].map(|name| {
        let file = File::options().read(true).write(true).open(folder.path(name)).unwrap();
        let slots = LABEL_SLOTS.map(|offset| {
            let mut bytes = vec![0; METADATA_BYTES];
            file.read_exact_at(&mut bytes, offset).unwrap();
            bytes
        });
        let newest = newest_label([&slots[0], &slots[1]]).unwrap();
        (file, newest.slot, newest.found)
    });
    let last = &images[0].2.label;
    let mut before = Label { generation: last.generation + 1, ..last.clone() };
    let recovered_bytes = before.members[1].size_bytes;
    before.members[1].state = MemberState::Rebuilding { recovered_bytes };
    let announced = Label { generation: last.generation + 2, ..last.clone() };
    let write = |image: usize, label: &Label, is_newest: bool| {
        let (file, slot, found) = &images[image];
        let offset = LABEL_SLOTS[if is_newest { 1 - slot } else { *slot }];
        file.write_all_at(&label.encode(found.member, offset), offset).unwrap();
    };
    write(0, &before, true);
    write(1, &before, false);
    write(1, &announced, true);
    (folder, images[0].2.member.to_string())
}

/// The error of options that do not fit.
fn wrong_use(folder: &Folder, options: &[&str]) -> String {
    let output = folder.run(&[&["serve"], options, &["--export", "nbd:unix:socket"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn the_rebuilt_member_starts_alone_only_if_the_other_is_given_up() {
    let (folder, uuid) = interrupted();
    let error = refusal(&folder, &["b.img", "--degraded"]);
    for part in ["`b.img` had been rebuilt, so devid 1", &format!("--degraded --discard {uuid}")] {
        assert!(error.contains(part), "{error}");
    }
    let output = folder.run(&["examine", "b.img"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("others were rebuilt from"), "{text}");
    let service = serve(&folder, &["b.img", "--read-only"]);
    assert_reads(&folder, 0, 1);
    service.terminate();
    let error = refusal(&folder, &["b.img", "--discard", &uuid]);
    assert!(error.contains("start with --read-only, as a missing member may"), "{error}");
    let other = uuid.replace(&uuid[..4], "0000");
    let error = wrong_use(&folder, &["b.img", "--degraded", "--discard", &other]);
    assert!(error.contains("no member of the volume has this UUID"), "{error}");
    let service = serve(&folder, &["b.img", "--degraded", "--discard", &uuid]);
    client(&folder).write(0, &[2; BLOCK]);
    service.terminate();
    // The option may stay, as in a unit of systemd, while the member is missing, when it is back,
    // and when another device has taken its place.
    serve(&folder, &["b.img", "--discard", &uuid]).terminate();
    let service = serve(&folder, &["b.img", "--discard", &other]);
    assert!(has_line(&service, "no member of the volume has this UUID now"), "{:?}", service.lines);
    service.terminate();
    // It was found again.
    let service = serve(&folder, &["a.img", "b.img", "--discard", &uuid]);
    let note = "without effect, because this member is there and is rebuilt";
    assert!(has_line(&service, note), "{:?}", service.lines);
    wait_until_in_sync(&folder);
    assert_reads(&folder, 0, 2);
    service.terminate();
}

#[test]
fn a_start_of_both_records_that_the_rebuild_has_ended() {
    let (folder, uuid) = interrupted();
    let error = wrong_use(&folder, &["a.img", "b.img", "--discard", &uuid]);
    assert!(error.contains("this member is there\n  help: give the path"), "{error}");
    let service = serve(&folder, &["a.img", "b.img"]);
    assert!(folder.ctl(&["status"]).contains("pair: in sync"));
    service.terminate();
    for device in ["a.img", "b.img"] {
        assert!(
            refusal(&folder, &[device]).contains("start with --read-only, as a missing member may")
        );
    }
    let (folder, _) = interrupted();
    let service = serve(&folder, &["a.img", "b.img", "--discard", "a.img"]);
    wait_until_in_sync(&folder);
    assert_reads(&folder, 0, 1);
    service.terminate();
}
