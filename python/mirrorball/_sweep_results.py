"""Results of a sweep: its folder, and its rows as a frame."""

from __future__ import annotations

import importlib
import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from ._arguments import option, path_text
from ._binary import run
from ._frames import choose_library, frame_of_columns
from ._rows import COLUMNS
from ._shards import run_shards

#: The columns that rows of a sweep have in addition, and their SQL types.
_MORE = {"background_bytes": "UBIGINT", "member_ios": "UBIGINT"}


def is_sweep(folder: Path) -> bool:
    """Return whether a folder holds a sweep."""
    return (folder / "sweep.json").is_file()


class SweepResults:
    """The folder of a sweep."""

    def __init__(self, folder: Path) -> None:
        #: The folder.
        self.folder = folder

    def status(self) -> Dict[str, Any]:
        """Return the number of `cells`, how many are `done`, and the `parts` and their `bytes`."""
        printed = run(["sweep", "status", "--json", path_text(self.folder)]).stdout
        return dict(json.loads(printed))

    def run(
        self,
        executor: Optional[Any] = None,
        *,
        shards: Optional[int] = None,
        threads: Optional[int] = None,
        on_progress: Optional[Callable[[int, int], None]] = None,
    ) -> SweepResults:
        """Run the cells that the folder does not hold yet, and return the results.

        Without an executor the binary runs them, on all CPUs or on `threads` of them. An executor,
        such as `concurrent.futures.ProcessPoolExecutor`, Dask's `client.get_executor()` or one of
        submitit, gets `shards` tasks, each of which runs the binary with one thread, or `threads`.
        All workers must see the folder and have this package. After each task `on_progress` is
        called with the number of tasks that are done and of all.

        A task that fails is reported after the others have ended. The same call again runs what is
        missing, whatever happened to the processes before.
        """
        folder = path_text(self.folder)
        if executor is None:
            run(["sweep", "run", *option("--threads", threads), folder])
            return self
        run_shards(
            path_text(self.folder.absolute()),
            executor,
            cells=self.status()["cells"],
            shards=shards,
            threads=threads or 1,
            on_progress=on_progress,
        )
        return self

    def pack(self, *, partial: bool = False) -> Path:
        """Merge all rows into one Parquet file in the folder, and return its path.

        Equal plans give equal bytes. `partial` packs although cells are missing.
        """
        path = self.folder / ("partial.parquet" if partial else "packed.parquet")
        if partial or not path.exists():
            self._pack_into(path, partial)
        return path

    def _pack_into(self, path: Path, partial: bool) -> None:
        flags = ["--force", *(["--partial"] if partial else [])]
        run(["sweep", "pack", *flags, f"--output={path}", path_text(self.folder)])

    def verify(self, sample: float = 0.001, *, seed: int = 1, other_build: bool = False) -> str:
        """Run a fraction of the cells again and compare all figures; raise if one differs."""
        arguments = ["sweep", "verify", f"--sample={sample}", f"--seed={seed}"]
        arguments += ["--other-build"] * other_build
        return run([*arguments, path_text(self.folder)]).stdout.strip()

    def frame(self, library: Optional[str] = None, *, partial: bool = False) -> Any:
        """Return a frame with a row for each cell, section of its job, and kind of requests.

        `library` is `polars`, `pandas` or `duckdb`; by default the first that can be imported.
        """
        library = choose_library(library)
        module = importlib.import_module(library)
        if library == "pandas" and not importlib.util.find_spec("pyarrow"):
            return self._frame_of_lines(partial)
        return module.read_parquet(str(self.pack(partial=partial)))

    def _frame_of_lines(self, partial: bool) -> Any:
        """Return a frame of pandas, which cannot read Parquet by itself."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.ndjson"
            self._pack_into(path, partial)
            with path.open(encoding="utf-8") as lines:
                rows = [json.loads(line) for line in lines]
        columns: Dict[str, List[Any]] = {}
        for row in rows:
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        return frame_of_columns(columns, {**COLUMNS, **_MORE}, "pandas")

    def __repr__(self) -> str:
        status = self.status()
        return f"<SweepResults: {status['done']} of {status['cells']} cells in {self.folder}>"
