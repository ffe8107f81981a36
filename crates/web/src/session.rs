//! The requests of a page, and what is kept between them.

use crate::catalogue::catalogue;
use crate::pasted::{self, Correction};
use crate::picture::{Change, Picture, PictureRequest};
use crate::run::{Asked, Run};
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum PageRequest {
    /// The arrays, jobs, models and policies that are built in.
    Catalogue,
    /// The arrays of a pasted text.
    Understand {
        text: String,
    },
    /// An array after corrections of its list of disks.
    Correct {
        name: String,
        text: String,
        corrections: Vec<Correction>,
    },
    /// Begins a question about an array.
    Ask(Box<Asked>),
    Run {
        seed: usize,
        job: usize,
    },
    /// Adds cells that another worker ran: one in each line that follows.
    Add,
    /// The answer from the cells of the first repeats.
    Answer {
        repeats: usize,
    },
    /// Measures scrub, rebuild and flushes for the last answer.
    Maintain,
    /// Begins a picture: one run for each policy.
    Watch(Box<PictureRequest>),
    /// Advances the picture to a time.
    Step {
        until_ns: u64,
    },
    /// Changes what is pictured: one run, or all.
    Change {
        run: Option<usize>,
        change: Change,
    },
}

/// The state between the requests of a page.
#[derive(Default)]
pub struct Session {
    run: Option<Run>,
    picture: Option<Picture>,
}

impl Session {
    /// The reply to a request. An error is an object with the field `error`.
    pub fn reply(&mut self, request: &str) -> String {
        self.answer(request)
            .unwrap_or_else(|error| json!({ "error": format!("{error:#}") }).to_string())
    }

    fn answer(&mut self, text: &str) -> Result<String> {
        let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
        let request: PageRequest = serde_json::from_str(line).context("not a request")?;
        let value = match request {
            PageRequest::Catalogue => catalogue(),
            PageRequest::Understand { text } => pasted::understand(&text)?,
            PageRequest::Correct { name, text, corrections } => {
                pasted::corrected(&name, &text, &corrections)?
            }
            PageRequest::Ask(asked) => {
                let run = Run::new(*asked, self.run.take())?;
                self.run.insert(run).plan()
            }
            PageRequest::Run { seed, job } => return self.run()?.cells(seed, job),
            PageRequest::Add => self.run()?.add(rest)?,
            PageRequest::Answer { repeats } => self.run()?.answer(repeats)?,
            PageRequest::Maintain => self.run()?.maintain()?,
            PageRequest::Watch(watched) => self.picture.insert(Picture::new(&watched)?).described(),
            PageRequest::Step { until_ns } => self.picture()?.step(until_ns)?,
            PageRequest::Change { run, change } => self.picture()?.change(run, &change)?,
        };
        Ok(Value::to_string(&value))
    }

    fn picture(&mut self) -> Result<&mut Picture> {
        self.picture.as_mut().context("no picture has begun")
    }

    fn run(&mut self) -> Result<&mut Run> {
        self.run.as_mut().context("no question was asked")
    }
}
