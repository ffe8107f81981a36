//! Why a scrub is refused.

/// Why a scrub cannot do what it is asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScrubError {
    /// The members are served without a volume.
    #[error(
        "cannot scrub: no volume is served, only disks\n  help: a scrub compares the mirrors of a \
         volume: those of `serve`, and of `emulate` with an array and without --members"
    )]
    NoVolume,
    /// The profile has no redundancy.
    #[error(
        "the profile of the volume keeps a single copy of the data: there is nothing to \
         compare\n  help: a scrub is for profiles with copies, such as raid1 or raid10"
    )]
    NoCopy,
    /// The volume has parity.
    #[error(
        "a scrub compares mirrors, and the volume has parity\n  help: simulate the load of a scrub \
         with a job that has `; mirrorball: background=scrub`"
    )]
    Parity,
    /// It is read-only.
    #[error(
        "the volume is read-only, so a scrub cannot repair it\n  help: start the scrub without \
         --repair, or restart the server without --read-only"
    )]
    ReadOnly,
    /// Nothing has two mirrors in sync.
    #[error(
        "no two mirrors are in sync, so there is nothing to compare\n  help: wait until no member \
         is being rebuilt, and rebuild those that have failed; `ctl members` shows their states"
    )]
    NoMirror,
    /// No data can be on most mirrors.
    #[error(
        "each block has two mirrors, and nothing shows which of them is right where they \
         differ\n  help: start the scrub without --repair; if you find out which disk is good, \
         name it: --repair --from DEVID"
    )]
    NoMajority,
    /// No member in sync has this devid.
    #[error(
        "--from {0}: no member with devid {0} is in sync\n  help: `ctl members` lists the members"
    )]
    NotInSync(u64),
    /// A scrub is under way.
    #[error(
        "a scrub is already under way\n  help: `ctl scrub status` shows it, `ctl scrub cancel` \
         ends it"
    )]
    UnderWay,
    /// No scrub runs.
    #[error("no scrub is running\n  help: `ctl scrub start` starts one")]
    NotRunning,
    #[error("the scrub is paused already\n  help: `ctl scrub resume` goes on with it")]
    Paused,
    #[error("no scrub is paused\n  help: `ctl scrub status` shows the last one")]
    NotPaused,
}
