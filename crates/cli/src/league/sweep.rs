//! `mirrorball league --sweep`: the league, its cells run as a sweep.

use crate::ending::Failure;
use mirrorball_lab::evaluation::league::LeagueRequest;
use mirrorball_lab::evaluation::league::standings::Standings;
use std::path::Path;

/// The standings, if all cells are done. The first call writes the plan.
#[cfg(feature = "sweeps")]
pub(super) fn standings(
    request: &LeagueRequest,
    path: &Path,
) -> Result<Option<Standings>, Failure> {
    use crate::screen;
    use anyhow::anyhow;
    use mirrorball_lab::experiment::build::BuildIdentity;
    use mirrorball_sweep::folder::{PLAN_FILE, SweepFolder};
    use mirrorball_sweep::league;

    let build = BuildIdentity::current().map_err(Failure::Fault)?;
    let shown = path.display();
    if !path.join(PLAN_FILE).exists() {
        SweepFolder::check_free(path).map_err(Failure::WrongUse)?;
        let plan = league::plan(request, build).map_err(Failure::Fault)?;
        let cells = SweepFolder::create(path, plan).map_err(Failure::WrongUse)?.cells.len();
        screen::say(format_args!("planned {cells} cells; run them, then this command again"));
        screen::print(&format!("mirrorball sweep run {shown}\n"))?;
        return Ok(None);
    }
    let folder = SweepFolder::open(path).map_err(Failure::WrongUse)?;
    folder.check_build(&build).map_err(Failure::WrongUse)?;
    if folder.plan.league.as_ref() != Some(&request.of_cells()) {
        return Err(Failure::WrongUse(anyhow!(
            "{shown} holds another sweep\n  help: give another folder with --sweep, or the options \
             that the sweep was planned with"
        )));
    }
    let done = folder.done().map_err(Failure::WrongUse)?;
    let (count, cells) = (done.count(), folder.cells.len());
    if count < cells {
        return Err(Failure::WrongUse(anyhow!(
            "{count} of {cells} cells are done\n  help: run `mirrorball sweep run {shown}` first"
        )));
    }
    league::standings(request, &folder, &done).map(Some).map_err(Failure::Fault)
}

/// Note of this build about sweeps.
#[cfg(not(feature = "sweeps"))]
pub(super) fn standings(
    _request: &LeagueRequest,
    _path: &Path,
) -> Result<Option<Standings>, Failure> {
    Err(crate::sweep::no_sweeps())
}
