//! Programs through the control socket, with a loader that does what a test tells it.

use super::policy_loader::LOADS_MAX;
use super::protocol::{AskError, ControlRequest, RequestErrorKind, ask};
use super::tests::start_with;
use crate::programs::hex_digits;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{
    OBJECT_BYTES_MAX, PolicyProgram, ProgramLoader, ProgramParameter, Registry, Spec,
};
use mirrorball_core::policy::ReadPolicy;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use tempfile::TempDir;

/// A loader of any object; one that starts with `p` makes it panic, one with `w` makes it wait.
#[derive(Debug)]
struct ScriptedLoader {
    /// Where the test and the loader meet, twice for each object.
    meeting: Arc<Barrier>,
}

#[derive(Debug)]
struct ScriptedProgram {
    object: Vec<u8>,
}

impl ProgramLoader for ScriptedLoader {
    fn load(&self, object: &[u8]) -> Result<Arc<dyn PolicyProgram>, Diagnostic> {
        match object.first() {
            Some(b'p') => panic!("the test wants it"),
            Some(b'w') => {
                self.meeting.wait();
                self.meeting.wait();
            }
            _ => {}
        }
        Ok(Arc::new(ScriptedProgram { object: object.to_vec() }))
    }
}

impl PolicyProgram for ScriptedProgram {
    fn name(&self) -> &str {
        "program/scripted@00"
    }

    fn object(&self) -> &[u8] {
        &self.object
    }

    fn fallback(&self) -> &str {
        "dm/queue-length"
    }

    fn parameters(&self) -> &[ProgramParameter] {
        &[]
    }

    fn build(&self, _: &[u64], devids: &[u64]) -> Result<Box<dyn ReadPolicy>, Diagnostic> {
        Spec::parse("md/raid1")?.build(devids)
    }
}

fn set_program(path: &Path, object: Option<&[u8]>) -> Result<String, AskError> {
    let (name, object) = ("program:/no/such/file.wasm".to_owned(), object.map(hex_digits));
    ask(path, &ControlRequest::SetPolicy { name, object, keep: false })
}

fn set_builtin(path: &Path, name: &str) -> String {
    let (name, object) = (name.to_owned(), None);
    ask(path, &ControlRequest::SetPolicy { name, object, keep: false }).unwrap()
}

fn refusal(result: Result<String, AskError>) -> (RequestErrorKind, String) {
    match result {
        Err(AskError::Refused(error)) => (error.kind, error.error),
        other => panic!("{other:?}"),
    }
}

fn start_scripted(folder: &TempDir, meeting: Arc<Barrier>) -> PathBuf {
    let programs = Some(Registry::with_loader(Arc::new(ScriptedLoader { meeting })));
    start_with(folder, programs)
}

#[test]
fn the_client_sends_the_object_and_the_service_opens_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let meeting = Arc::new(Barrier::new(2));
    let path = start_scripted(&folder, meeting);
    // The largest object that there may be, and the longest request.
    let object = vec![b'x'; OBJECT_BYTES_MAX];
    assert_eq!(set_program(&path, Some(&object)).unwrap(), "program/scripted@00");
    let (kind, error) = refusal(set_program(&path, None));
    assert_eq!(kind, RequestErrorKind::Policy);
    assert!(error.contains("the request has no object of the program"), "{error}");
    let longer = vec![b'x'; OBJECT_BYTES_MAX + 2048];
    assert!(set_program(&path, Some(&longer)).is_err());
    assert_eq!(ask::<String>(&path, &ControlRequest::Policy).unwrap(), "program/scripted@00");
}

#[test]
fn a_loader_that_panics_is_an_error_of_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let meeting = Arc::new(Barrier::new(2));
    let path = start_scripted(&folder, meeting);
    for _ in 0..2 {
        let (kind, error) = refusal(set_program(&path, Some(b"panic")));
        assert_eq!(kind, RequestErrorKind::Policy);
        assert!(error.contains("the loader of programs panicked"), "{error}");
    }
    assert_eq!(set_program(&path, Some(b"good")).unwrap(), "program/scripted@00");
}

#[test]
fn a_policy_that_is_set_while_a_program_loads_stays() {
    let folder = tempfile::tempdir().unwrap();
    let meeting = Arc::new(Barrier::new(2));
    let path = start_scripted(&folder, Arc::clone(&meeting));
    let (socket, object) = (path.clone(), b"wait");
    let waiting = std::thread::spawn(move || set_program(&socket, Some(object)));
    meeting.wait();
    assert_eq!(set_builtin(&path, "dm/queue-length"), "dm/queue-length");
    meeting.wait();
    let (kind, error) = refusal(waiting.join().unwrap());
    assert_eq!(kind, RequestErrorKind::Refused);
    assert!(error.contains("was set to dm/queue-length while the program was loaded"), "{error}");
    assert_eq!(ask::<String>(&path, &ControlRequest::Policy).unwrap(), "dm/queue-length");
    // A load that begins later than the change is used.
    assert_eq!(set_program(&path, Some(b"good")).unwrap(), "program/scripted@00");
}

#[test]
fn programs_wait_to_be_loaded_up_to_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let meeting = Arc::new(Barrier::new(2));
    let path = start_scripted(&folder, Arc::clone(&meeting));
    let (sender, results) = std::sync::mpsc::channel();
    let ask_for = |object: &'static [u8]| {
        let (path, sender) = (path.clone(), sender.clone());
        std::thread::spawn(move || sender.send(set_program(&path, Some(object))).unwrap());
    };
    ask_for(b"wait");
    meeting.wait();
    // One is being loaded, and all but one of these find a place.
    (0..LOADS_MAX).for_each(|_| ask_for(b"good"));
    let (kind, error) = refusal(results.recv().unwrap());
    assert_eq!(kind, RequestErrorKind::Refused);
    assert!(error.contains("4 programs are being loaded"), "{error}");
    // The service answers all the same.
    assert_eq!(ask::<String>(&path, &ControlRequest::Policy).unwrap(), "pid");
    meeting.wait();
    for _ in 0..LOADS_MAX {
        // One that is ready after a later request was, is refused for that.
        match results.recv().unwrap() {
            Ok(name) => assert_eq!(name, "program/scripted@00"),
            other => assert!(refusal(other).1.contains("while the program was loaded")),
        }
    }
    assert_eq!(set_program(&path, Some(b"good")).unwrap(), "program/scripted@00");
}
