//! BlockingWorker: work that waits, done beside the loop.
//!
//! To open a device, to connect to another machine, or to ask a filesystem where its holes are may
//! take as long as disks do, and meanwhile the loop has clients. A thread runs the errands one
//! after the other, brings back what came of each, and rings a bell that the loop hears as it hears
//! any socket. The thread begins with the first errand and ends with the last.
//!
//! Non-goals: many at a time; whoever wants that has several.

use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Driver, Handle, Token};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

type Errand<T> = Box<dyn FnOnce() -> T + Send>;

/// See the page of this module. `T` is what an errand brings.
pub(crate) struct BlockingWorker<T> {
    /// What the token of the bell is.
    token: Token,
    bell: Handle,
    buffer: BufferKey,
    brought: Receiver<T>,
    /// For the thread: how it brings things, and how it rings.
    voice: (Sender<T>, Arc<UnixStream>),
    /// How the thread is told what to do, once there is one.
    orders: Option<Sender<Errand<T>>>,
}

impl<T: Send + 'static> BlockingWorker<T> {
    /// Nobody is under way yet. The bell rings with this token; its owner then calls
    /// [`BlockingWorker::listen`] and [`BlockingWorker::poll`].
    ///
    /// # Errors
    /// If the system has no socket to spare.
    pub(crate) fn new(token: Token, driver: &mut Driver) -> io::Result<BlockingWorker<T>> {
        let (ears, mouth) = UnixStream::pair()?;
        let bell = driver.adopt(ears.into())?;
        let buffer = driver.buffers.acquire(1);
        let (sender, brought) = channel();
        let voice = (sender, Arc::new(mouth));
        let errands = BlockingWorker { token, bell, buffer, brought, voice, orders: None };
        errands.listen(driver);
        Ok(errands)
    }

    /// Has the thread do this when it has done all before.
    ///
    /// # Errors
    /// If the system has no thread to spare.
    pub(crate) fn run(&mut self, errand: impl FnOnce() -> T + Send + 'static) -> io::Result<()> {
        let orders = match &self.orders {
            Some(orders) => orders,
            None => {
                let (orders, work) = channel::<Errand<T>>();
                let (sender, bell) = self.voice.clone();
                let thread = std::thread::Builder::new().name("errands".to_owned());
                thread.spawn(move || go(&work, &sender, &bell))?;
                self.orders.insert(orders)
            }
        };
        orders.send(Box::new(errand)).map_err(|_| io::Error::other("the thread is gone"))
    }

    /// What an errand brought, if one did.
    pub(crate) fn poll(&self) -> Option<T> {
        self.brought.try_recv().ok()
    }

    /// Waits for the bell: to be called when it rang.
    pub(crate) fn listen(&self, driver: &mut Driver) {
        driver.receive(self.token, self.bell, Slice::data(self.buffer, 0, 1));
    }
}

/// What the thread does until nobody can send it any more.
fn go<T>(work: &Receiver<Errand<T>>, sender: &Sender<T>, mut bell: &UnixStream) {
    for errand in work {
        // Whoever does not hear it any more has no use for it.
        if sender.send(errand()).is_err() || bell.write_all(&[1]).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{BackendKind, Output};

    #[test]
    fn what_errands_bring_is_heard_in_order() {
        for backend in [BackendKind::Ring, BackendKind::Threads] {
            let Ok((mut driver, _)) = Driver::new(Some(backend)) else { continue };
            let mut errands = BlockingWorker::new(Token(7), &mut driver).unwrap();
            for number in 0..100 {
                errands.run(move || number).unwrap();
            }
            let (mut done, mut brought) = (Vec::new(), Vec::new());
            while brought.len() < 100 {
                driver.wait(None, &mut done).unwrap();
                for done in done.drain(..) {
                    assert_eq!(done.token, Token(7));
                    assert!(matches!(done.result, Ok(Output::Bytes(1))));
                    brought.extend(std::iter::from_fn(|| errands.poll()));
                    errands.listen(&mut driver);
                }
            }
            assert_eq!(brought, (0..100).collect::<Vec<i32>>());
        }
    }
}
