//! Blocking worker: runs blocking tasks in a thread and wakes the driver after each.
//!
//! Opening a device, connecting to another machine and asking a filesystem for holes may take as
//! long as a disk does. The thread runs tasks one after the other. It is started by the first task
//! and ends when the worker is dropped.
//!
//! In a simulation a task runs at once, in the caller's thread, and its result is reported at a
//! later virtual time.

use crate::driver::sim::SimulatedWorld;
use crate::driver::{Driver, Handle, Token, Waker};
use mirrorball_core::units::Nanos;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

type Task<T> = Box<dyn FnOnce() -> T + Send>;

/// A thread for blocking tasks that return `T`.
pub(crate) struct BlockingWorker<T> {
    waker: Waker,
    handle: Handle,
    runner: Runner<T>,
}

/// The thread or the simulation that runs the tasks.
enum Runner<T> {
    Thread {
        sender: Sender<T>,
        results: Receiver<T>,
        /// The thread's queue, once there is a thread.
        tasks: Option<Sender<Task<T>>>,
    },
    Simulated {
        simulation: SimulatedWorld,
        /// Results, and when they are reported.
        results: Mutex<VecDeque<(Nanos, T)>>,
    },
}

impl<T: Send + 'static> BlockingWorker<T> {
    /// A worker without tasks. Each result is followed by an event with this token, upon which the
    /// owner calls [`BlockingWorker::poll`] until it returns `None`.
    pub(crate) fn new(token: Token, driver: &mut Driver) -> io::Result<BlockingWorker<T>> {
        let waker = Waker::new()?;
        let handle = driver.add_waker(token, &waker)?;
        let runner = match driver.simulation() {
            Some(simulation) => {
                Runner::Simulated { simulation: simulation.clone(), results: Mutex::default() }
            }
            None => {
                let (sender, results) = channel();
                Runner::Thread { sender, results, tasks: None }
            }
        };
        Ok(BlockingWorker { waker, handle, runner })
    }

    /// Queues a task.
    pub(crate) fn run(&mut self, task: impl FnOnce() -> T + Send + 'static) -> io::Result<()> {
        let (sender, tasks) = match &mut self.runner {
            Runner::Thread { sender, tasks, .. } => (sender, tasks),
            Runner::Simulated { simulation, results } => {
                let result = task();
                let results = results.get_mut().unwrap_or_else(PoisonError::into_inner);
                // In order: a task starts when those before it are done.
                let begin = results.back().map_or(Nanos::ZERO, |(at, _)| *at);
                results.push_back((simulation.wake_later(begin, &self.waker), result));
                return Ok(());
            }
        };
        let tasks = match tasks {
            Some(tasks) => tasks,
            None => {
                let (new, queue) = channel::<Task<T>>();
                let (sender, waker) = (sender.clone(), self.waker.clone());
                let thread = std::thread::Builder::new().name("blocking-worker".to_owned());
                let spawned = thread.spawn(move || run_tasks(&queue, &sender, &waker));
                spawned.map_err(no_thread)?;
                tasks.insert(new)
            }
        };
        tasks.send(Box::new(task)).map_err(|_| io::Error::other("the worker thread panicked"))
    }

    /// The next result, in the order of the tasks.
    pub(crate) fn poll(&self) -> Option<T> {
        match &self.runner {
            Runner::Thread { results, .. } => results.try_recv().ok(),
            Runner::Simulated { simulation, results } => {
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                let is_due = results.front().is_some_and(|(at, _)| *at <= simulation.now());
                is_due.then(|| results.pop_front()).flatten().map(|(_, result)| result)
            }
        }
    }

    /// Stops reporting results, so that the token is free for another owner.
    pub(crate) fn close(self, driver: &mut Driver) {
        driver.close(self.handle);
    }
}

/// The error of a thread that cannot be started, with advice.
fn no_thread(error: io::Error) -> io::Error {
    let help = "raise the limit of processes (`ulimit -u`), or end some";
    io::Error::new(error.kind(), format!("cannot start a thread: {error}\n  help: {help}"))
}

/// Runs tasks until the worker is dropped.
fn run_tasks<T>(tasks: &Receiver<Task<T>>, results: &Sender<T>, waker: &Waker) {
    for task in tasks {
        if results.send(task()).is_err() {
            return;
        }
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::sim::SimOptions;
    use crate::driver::{BackendKind, EventOwner, Output};

    #[test]
    fn results_are_reported_in_the_order_of_tasks() {
        let simulated = Driver::simulated(&SimulatedWorld::new(SimOptions::default()));
        let real = [BackendKind::Ring, BackendKind::Threads];
        let real = real.into_iter().filter_map(|kind| Driver::new(Some(kind)).ok());
        for mut driver in real.map(|(driver, _)| driver).chain([simulated]) {
            let token = Token::new(EventOwner::Reopen, 7);
            let mut worker = BlockingWorker::new(token, &mut driver).unwrap();
            for number in 0..100 {
                worker.run(move || number).unwrap();
            }
            let (mut events, mut results) = (Vec::new(), Vec::new());
            while results.len() < 100 {
                driver.wait(None, &mut events).unwrap();
                for event in events.drain(..) {
                    assert_eq!(event.token, token);
                    assert!(matches!(event.result, Ok(Output::Woken)));
                    results.extend(std::iter::from_fn(|| worker.poll()));
                }
            }
            assert_eq!(results, (0..100).collect::<Vec<i32>>());
            worker.close(&mut driver);
        }
    }
}
