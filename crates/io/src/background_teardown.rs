//! The end of something, brought about beside the loop.
//!
//! To unmount a folder or to remove a block device waits for whoever uses it, and may bring a last
//! few requests, which the loop answers meanwhile. So a thread does it, and rings when it is done.
//! What it has to say is there before it rings, not only when the thread has ended: whoever hears
//! the bell looks once, and nothing wakes it a second time.

use std::sync::{Arc, OnceLock};

/// See the page of this module. `T` is what there is to be told of the end.
pub(crate) struct BackgroundTeardown<T>(Arc<OnceLock<T>>);

impl<T: Clone + Send + Sync + 'static> BackgroundTeardown<T> {
    /// Lets a thread bring the end about, and ring after that.
    pub(crate) fn begin(
        end: impl FnOnce() -> T + Send + 'static,
        ring: impl FnOnce() + Send + 'static,
    ) -> BackgroundTeardown<T> {
        let told = Arc::new(OnceLock::new());
        let tell = Arc::clone(&told);
        std::thread::spawn(move || {
            // Nobody else tells.
            let _ = tell.set(end());
            ring();
        });
        BackgroundTeardown(told)
    }

    /// What there is to be told, once it is over.
    pub(crate) fn told(&self) -> Option<T> {
        self.0.get().cloned()
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.0.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn whoever_hears_the_bell_finds_that_it_is_over() {
        let (rung, heard) = channel();
        let (looked, go_on) = channel();
        let ring = move || {
            rung.send(()).unwrap();
            // The thread is still about while somebody looks.
            go_on.recv().unwrap();
        };
        let farewell = BackgroundTeardown::begin(|| "unmounted", ring);
        heard.recv().unwrap();
        assert!(farewell.is_over());
        assert_eq!(farewell.told(), Some("unmounted"));
        looked.send(()).unwrap();
    }
}
