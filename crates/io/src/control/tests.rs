//! Questions and answers through a real socket, and a policy changed under load.

use super::*;
use crate::address::Address;
use crate::assemble::{Assembly, Backing, Emulation, Shape, emulate};
use crate::clock::Speed;
use crate::nbd::server::ConnectionsMax;
use crate::service::Service;
use mirrorball_core::policies::Spec;
use mirrorball_disk::array_file::ArrayFile;
use serde_json::Value;
use std::path::PathBuf;

fn service(path: PathBuf) -> Service {
    let text = "profile = \"raid1\"\n[[member]]\nmodel = \"delay\"\ncount = 2\nsize = \"8MiB\"\n";
    let array = ArrayFile::parse(text, "pair.toml").unwrap().spec;
    let emulation = Emulation {
        array: &array,
        shape: Shape::Volume,
        policy: Spec::parse("pid").unwrap().build(&[1, 2]).unwrap(),
        backing: Backing::Memory,
        speed: Speed::REAL,
        seed: 1,
        backend: None,
    };
    let Assembly { mut executor, exports, .. } = emulate(emulation).unwrap();
    let listener = executor.driver.adopt(Address::Unix(path).bind().unwrap().socket).unwrap();
    let (name, policy) = ("pair".to_owned(), Some("pid".to_owned()));
    let control = Control::new(name, policy, listener, &mut executor);
    let server = Server::new(exports, Vec::new(), ConnectionsMax(1), &mut executor);
    let (service, stopper) = Service::new(executor, server, Some(control)).unwrap();
    // The test's thread ends with it.
    std::mem::forget(stopper);
    service
}

fn answer(path: &Path, line: &str) -> Value {
    serde_json::from_str(&ask(path, line).unwrap()).unwrap()
}

#[test]
fn questions_are_answered_and_nonsense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let (socket, (sender, receiver)) = (path.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let mut service = service(socket);
        sender.send(()).unwrap();
        service.run().unwrap();
    });
    receiver.recv().unwrap();
    let status = &answer(&path, "status")["answer"];
    assert_eq!((&status["health"], &status["policy"]), (&"in sync".into(), &"pid".into()));
    assert_eq!(status["exports"][0]["name"], "pair");
    assert_eq!(answer(&path, "members")["answer"][1]["devid"], 2);
    assert_eq!(answer(&path, "stats")["answer"]["members"][0]["read_wait"]["count"], 0);
    assert_eq!(answer(&path, "policy round-robin:256K")["answer"], "round-robin:256K");
    assert_eq!(answer(&path, "policy")["answer"], "round-robin:256K");
    for (line, part) in [
        ("policy latncy-rr", "latency-rr"),
        ("policy devid:9", "9"),
        ("", "not understood"),
        ("members all", "not understood"),
    ] {
        let error = answer(&path, line)["error"].as_str().unwrap().to_owned();
        assert!(error.contains(part), "{line}: {error}");
    }
    assert_eq!(answer(&path, "policy")["answer"], "round-robin:256K", "nothing was changed");
    let mut rude = UnixStream::connect(&path).unwrap();
    rude.write_all(&[b'x'; 5000]).unwrap();
    assert_eq!(rude.read_to_end(&mut Vec::new()).unwrap_or(0), 0, "a line without an end");
    assert_eq!(answer(&path, "policy")["answer"], "round-robin:256K");
}
