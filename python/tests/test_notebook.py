"""The notebook of the documentation runs, and its outputs are saved in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_notebook_is_short_saved_with_outputs_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("polars")
    pytest.importorskip("matplotlib").use("Agg")
    notebook = json.loads((DOCS / "python.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    sources = ["".join(cell["source"]) for cell in cells]
    assert sum(bool(line.strip()) for source in sources for line in source.splitlines()) <= 20
    kinds = [
        kind for cell in cells for output in cell["outputs"] for kind in output.get("data", {})
    ]
    assert "text/html" in kinds and "image/png" in kinds
    assert all(output["output_type"] != "error" for cell in cells for output in cell["outputs"])
    monkeypatch.chdir(DOCS)
    names: Dict[str, Any] = {}
    for source in sources:
        # Shorter, and in a folder of the test.
        source = source.replace("/tmp", str(tmp_path))
        exec(source.replace('"2s"', '"20ms"'), names)
    assert len(names["tails"]) == 2 * 4 * 6
    assert [len(place.lines) for place in names["axes"]] == [4, 4]
