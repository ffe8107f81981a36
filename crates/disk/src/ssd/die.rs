//! One die: the read, program or erase that holds it, and the work that waits behind.
//!
//! Reads come first: they wait for the operation in progress and never for work that has not begun.
//! Programs of the host's data come before the copies of garbage collection, copies before erases.
//! Work that waits is kept as counts and begun late, when something next looks at the die: nothing
//! can have looked in between, so the times are those of doing it on the spot, and an idle disk
//! costs nothing. A read that finds a program or an erase waits for its end, or, where the drive
//! suspends, for the suspension; the work then ends later by the reads that were let in.
//!
//! A [`Die`] is small and `Copy`: what a read would find is asked of a copy.
//!
//! Source of suspension: Wu and He, "Reducing SSD read latency via NAND flash program and erase
//! suspension", FAST 2012.

use mirrorball_core::rng::Rng;

/// How long the operations of a die take, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct DieTiming {
    pub(super) program_ns: u64,
    pub(super) slc_program_ns: u64,
    pub(super) copy_read_ns: u64,
    pub(super) erase_ns: u64,
    /// Time of a suspension, or `None` if the drive has none.
    pub(super) suspend_ns: Option<u64>,
    /// Share of programs and erases that refuse suspension, in 2^-32.
    pub(super) suspend_refused: u64,
}

/// The state of a die. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Die {
    /// When the program, copy or erase begun last ends.
    work_end: u64,
    /// When the read begun last ends.
    read_end: u64,
    /// Distinguishes this die's draws of chance from those of others.
    seed: u64,
    /// Host programs that wait.
    programs: u32,
    /// Host programs of the SLC cache that wait.
    slc_programs: u32,
    copies: u32,
    erases: u32,
    /// Programs, copies and erases begun so far: numbers the draws.
    begun: u32,
    /// Operation that ends at `work_end`.
    work: DieWork,
    /// Whether it can be suspended.
    suspendable: bool,
}

/// A read of a die: when it ends, and for how long it keeps the die from other work.
#[derive(Clone, Copy, Debug)]
pub(super) struct DieRead {
    pub(super) end: u64,
    pub(super) held_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DieWork {
    Program,
    /// The reading half of a copy; its program follows.
    CopyRead,
    CopyProgram,
    Erase,
}

impl Die {
    pub(super) fn new(seed: u64) -> Die {
        Die {
            work_end: 0,
            read_end: 0,
            seed,
            programs: 0,
            slc_programs: 0,
            copies: 0,
            erases: 0,
            begun: 0,
            work: DieWork::Erase,
            suspendable: false,
        }
    }

    /// Reads for `hold_ns` from `at` on, or as soon as the die lets it.
    #[inline]
    pub(super) fn read(&mut self, at: u64, hold_ns: u64, timing: &DieTiming) -> DieRead {
        if self.waits() {
            self.catch_up(at, timing);
        }
        let mut held_ns = hold_ns;
        let start = if self.work_end <= at {
            at.max(self.read_end)
        } else {
            self.start_during_work(at, &mut held_ns, timing)
        };
        self.read_end = start + hold_ns;
        DieRead { end: self.read_end, held_ns }
    }

    /// Adds a program of the host's data at `at`.
    pub(super) fn add_program(&mut self, at: u64, timing: &DieTiming) {
        self.make_room(at, timing);
        self.programs += 1;
    }

    /// Adds a program of the host's data in the SLC cache at `at`.
    pub(super) fn add_slc_program(&mut self, at: u64, timing: &DieTiming) {
        self.make_room(at, timing);
        self.slc_programs += 1;
    }

    /// Adds a burst of garbage collection at `at`: copies, then an erase.
    pub(super) fn add_collection(&mut self, at: u64, copies: u32, timing: &DieTiming) {
        self.make_room(at, timing);
        self.copies += copies;
        self.erases += 1;
    }

    /// When the host's data that was given to this die by `at` is programmed, if no read comes.
    pub(super) fn programmed_at(&self, at: u64, timing: &DieTiming) -> u64 {
        let mut die = *self;
        die.catch_up(at, timing);
        if die.programs + die.slc_programs == 0 {
            return if die.work == DieWork::Program { die.work_end.max(at) } else { at };
        }
        while die.programs + die.slc_programs > 0 {
            die.begin(die.work_end.max(die.read_end), timing);
        }
        die.work_end
    }

    fn waits(&self) -> bool {
        (self.programs | self.slc_programs | self.copies | self.erases) > 0
            || self.work == DieWork::CopyRead
    }

    /// Begins what would have begun before `at`. What could begin at `at` itself does not: a read
    /// submitted then goes first.
    fn catch_up(&mut self, at: u64, timing: &DieTiming) {
        while self.waits() {
            let start = self.work_end.max(self.read_end);
            if start >= at {
                break;
            }
            self.begin(start, timing);
        }
    }

    /// Before work is added at `at`: an idle die must not begin it earlier.
    fn make_room(&mut self, at: u64, timing: &DieTiming) {
        self.catch_up(at, timing);
        if !self.waits() {
            self.work_end = self.work_end.max(at);
        }
    }

    fn begin(&mut self, start: u64, timing: &DieTiming) {
        let (work, hold_ns) = if self.work == DieWork::CopyRead {
            (DieWork::CopyProgram, timing.program_ns)
        } else if self.slc_programs > 0 {
            self.slc_programs -= 1;
            (DieWork::Program, timing.slc_program_ns)
        } else if self.programs > 0 {
            self.programs -= 1;
            (DieWork::Program, timing.program_ns)
        } else if self.copies > 0 {
            self.copies -= 1;
            (DieWork::CopyRead, timing.copy_read_ns)
        } else {
            self.erases -= 1;
            (DieWork::Erase, timing.erase_ns)
        };
        self.work = work;
        self.work_end = start + hold_ns;
        self.begun = self.begun.wrapping_add(1);
        self.suspendable = timing.suspend_ns.is_some()
            && work != DieWork::CopyRead
            && (timing.suspend_refused == 0 || self.draw() >= timing.suspend_refused);
    }

    /// 32 bits of chance, a function of the die and the number of the operation: asking a copy of
    /// the die gives the same answer.
    fn draw(&self) -> u64 {
        Rng::new(self.seed.wrapping_add(u64::from(self.begun))).next_u64() >> 32
    }

    /// When a read that finds work in progress can begin. Suspension, where it comes to that, adds
    /// to what the read holds the die for, and the work is over later by all of it.
    fn start_during_work(&mut self, at: u64, held_ns: &mut u64, timing: &DieTiming) -> u64 {
        if self.read_end >= self.work_end {
            // Reads wait for the end of the work already.
            return self.read_end;
        }
        if self.read_end > at {
            // It is suspended for another read.
            self.work_end += *held_ns;
            return self.read_end;
        }
        match timing.suspend_ns {
            Some(suspend_ns) if self.suspendable && self.work_end - at > suspend_ns => {
                *held_ns += suspend_ns;
                self.work_end += *held_ns;
                at + suspend_ns
            }
            _ => self.work_end,
        }
    }
}
