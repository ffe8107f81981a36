//! Block status: which parts of an export are allocated.
//!
//! A hole is told as one that reads as zeroes ([`crate::survey`]). What a survey of memory finds is
//! told at once; one of files is an errand, so that neither the loop nor other clients wait for it.

use super::command::Command;
use super::connection::Phase;
use super::handshake::{ALLOCATION_ID, Agreement};
use super::job::Job;
use super::server::Server;
use crate::driver::Token;
use crate::errands::Errands;
use crate::executor::Executor;
use crate::executor::survey::Survey;
use crate::nbd_protocol::wire::{status_chunk, status_flag};
use crate::survey::{Extent, Ground, Manner, survey};
use std::io;

/// The owner of the token of the bell of surveys.
pub(super) const SURVEY: u8 = 12;

/// The most extents that a reply has.
pub(super) const EXTENTS_MAX: usize = 1024;

/// What is under way beside the loop: which request it is for, and what was found.
pub(super) type Surveys = Errands<(u32, Vec<Extent>)>;

impl Server {
    /// Answers a question for block status, or sets out to.
    pub(super) fn begin_status(
        &mut self,
        key: u32,
        agreement: Agreement,
        command: Command,
        executor: &mut Executor,
    ) {
        let export = &self.exports[agreement.export];
        let Command { offset, length, extents_max, .. } = command;
        let manner = Manner { extents_max, block_bytes: export.block_bytes.into() };
        let connection = self.connections.get_mut(key);
        let stretches = match executor.survey(export.target, offset, length.into()) {
            Survey::Memory(stretches) => {
                let chunk = chunk(&command, &survey(&stretches, manner));
                return connection.queue_copy(&chunk, &mut executor.driver);
            }
            Survey::Files(stretches) => stretches,
        };
        connection.jobs += 1;
        let job = self.jobs.insert(Job::new(key, command, agreement, None));
        let errand = move || (job, survey(&stretches, manner));
        let begun = self.surveys(executor).and_then(|surveys| surveys.run(errand));
        if begun.is_err() {
            // Without a thread nothing is known.
            let length = length.into();
            self.end_status(job, &[Extent { length, ground: Ground::Data }], executor);
        }
    }

    /// The bell of surveys rang.
    pub(super) fn on_surveyed(&mut self, executor: &mut Executor) {
        while let Some((job, extents)) = self.surveys.as_ref().and_then(Surveys::poll) {
            self.end_status(job, &extents, executor);
        }
        if let Some(surveys) = &self.surveys {
            surveys.listen(&mut executor.driver);
        }
    }

    fn surveys(&mut self, executor: &mut Executor) -> io::Result<&mut Surveys> {
        let surveys = match self.surveys.take() {
            Some(surveys) => surveys,
            None => Surveys::new(Token::new(SURVEY, 0), &mut executor.driver)?,
        };
        Ok(self.surveys.insert(surveys))
    }

    fn end_status(&mut self, job: u32, extents: &[Extent], executor: &mut Executor) {
        let Job { connection: key, command, .. } =
            self.jobs.remove(job).expect("a request ends once");
        let connection = self.connections.get_mut(key);
        let was_full = connection.is_full();
        connection.jobs -= 1;
        if matches!(connection.phase, Phase::Closed) {
            return self.forget_if_over(key);
        }
        connection.queue_copy(&chunk(&command, extents), &mut executor.driver);
        self.dirty.push(key);
        if was_full {
            self.go_on(key, executor);
        }
    }
}

fn chunk(command: &Command, extents: &[Extent]) -> Vec<u8> {
    let extents = extents.iter().map(|extent| {
        let flags = match extent.ground {
            Ground::Data => 0,
            Ground::Hole => status_flag::HOLE | status_flag::ZERO,
        };
        (extent.length as u32, flags)
    });
    status_chunk(command.cookie, ALLOCATION_ID, extents)
}
