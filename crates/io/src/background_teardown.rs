//! Background teardown: unmounts a directory or removes block devices in a thread.
//!
//! Both wait for the programs that use them, and may cause a last few requests that the service
//! must answer meanwhile. The result is stored before the waker is set, because the service reads
//! it once, when it is woken.

use crate::driver::Waker;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::Builder;

/// A teardown that is running or done. `T` is its result.
pub(crate) struct BackgroundTeardown<T>(Arc<OnceLock<T>>);

impl<T: Clone + Send + Sync + 'static> BackgroundTeardown<T> {
    /// Runs `teardown` in a new thread, then sets the waker. If the system cannot start a thread,
    /// `teardown` is dropped and the result is that of `failed`.
    pub(crate) fn start(
        teardown: impl FnOnce() -> T + Send + 'static,
        waker: Waker,
        failed: impl FnOnce(io::Error) -> T,
    ) -> BackgroundTeardown<T> {
        let thread = std::thread::Builder::new().name("teardown".to_owned());
        BackgroundTeardown::start_in(thread, teardown, move || waker.wake(), failed)
    }

    fn start_in(
        thread: Builder,
        teardown: impl FnOnce() -> T + Send + 'static,
        wake: impl Fn() + Clone + Send + 'static,
        failed: impl FnOnce(io::Error) -> T,
    ) -> BackgroundTeardown<T> {
        let result = Arc::new(OnceLock::new());
        let (slot, wake_after) = (Arc::clone(&result), wake.clone());
        let spawned = thread.spawn(move || {
            // Only this thread sets it.
            let _ = slot.set(teardown());
            wake_after();
        });
        if let Err(error) = spawned {
            let _ = result.set(failed(error));
            wake();
        }
        BackgroundTeardown(result)
    }

    /// The result, once the teardown is done.
    pub(crate) fn result(&self) -> Option<T> {
        self.0.get().cloned()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    #[test]
    fn teardown_result_is_visible_before_wakeup() {
        let (sender, woken) = channel();
        let (checked, go_on) = channel();
        let go_on = Arc::new(Mutex::new(go_on));
        let wake = move || {
            sender.send(()).unwrap();
            // The thread still runs while the result is read.
            go_on.lock().unwrap().recv().unwrap();
        };
        let unmount = || "unmounted";
        let teardown =
            BackgroundTeardown::start_in(Builder::new(), unmount, wake, |_| unreachable!());
        woken.recv().unwrap();
        assert!(teardown.is_done());
        assert_eq!(teardown.result(), Some("unmounted"));
        checked.send(()).unwrap();
    }

    #[test]
    fn without_a_thread_the_result_says_why() {
        let (sender, woken) = channel();
        // No system has memory for such a stack.
        let thread = Builder::new().stack_size(usize::MAX / 4);
        let wake = move || sender.send(()).unwrap();
        let teardown = BackgroundTeardown::start_in(
            thread,
            || "unmounted".to_owned(),
            wake,
            |error| format!("no thread: {error}"),
        );
        woken.recv().unwrap();
        assert!(teardown.result().unwrap().starts_with("no thread: "));
    }
}
