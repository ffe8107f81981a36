//! Background teardown: unmounts a directory or removes block devices in a thread.
//!
//! Both wait for the programs that use them, and may cause a last few requests that the service
//! must answer meanwhile. The result is stored before the waker is set, because the service reads
//! it once, when it is woken.

use crate::driver::Waker;
use std::sync::{Arc, OnceLock};

/// A teardown that is running or done. `T` is its result.
pub(crate) struct BackgroundTeardown<T>(Arc<OnceLock<T>>);

impl<T: Clone + Send + Sync + 'static> BackgroundTeardown<T> {
    /// Runs `teardown` in a new thread, then sets the waker.
    pub(crate) fn start(
        teardown: impl FnOnce() -> T + Send + 'static,
        waker: Waker,
    ) -> BackgroundTeardown<T> {
        BackgroundTeardown::start_then(teardown, move || waker.wake())
    }

    fn start_then(
        teardown: impl FnOnce() -> T + Send + 'static,
        wake: impl FnOnce() + Send + 'static,
    ) -> BackgroundTeardown<T> {
        let result = Arc::new(OnceLock::new());
        let slot = Arc::clone(&result);
        std::thread::spawn(move || {
            // Only this thread sets it.
            let _ = slot.set(teardown());
            wake();
        });
        BackgroundTeardown(result)
    }

    /// The result, once the teardown is done.
    pub(crate) fn result(&self) -> Option<T> {
        self.0.get().cloned()
    }

    /// True if the teardown is done.
    pub(crate) fn is_done(&self) -> bool {
        self.0.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn teardown_result_is_visible_before_wakeup() {
        let (sender, woken) = channel();
        let (checked, go_on) = channel();
        let wake = move || {
            sender.send(()).unwrap();
            // The thread still runs while the result is read.
            go_on.recv().unwrap();
        };
        let teardown = BackgroundTeardown::start_then(|| "unmounted", wake);
        woken.recv().unwrap();
        assert!(teardown.is_done());
        assert_eq!(teardown.result(), Some("unmounted"));
        checked.send(()).unwrap();
    }
}
