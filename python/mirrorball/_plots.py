"""Plots with the library of the notebook: matplotlib or Altair, neither of which is required."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, Mapping, Optional, Sequence

from ._histogram import Histogram

#: The libraries, in the order in which they are tried.
LIBRARIES = ("matplotlib", "altair")


def choose_plot_library(name: Optional[str]) -> str:
    """Return `name`, or a library that is imported, or the first that can be imported."""
    if name is not None:
        if name not in LIBRARIES:
            raise ValueError(f"unknown library `{name}`; known are {', '.join(LIBRARIES)}")
        return name
    for library in LIBRARIES:
        if library in sys.modules:
            return library
    for library in LIBRARIES:
        if importlib.util.find_spec(library):
            return library
    raise ImportError("no library for plots is installed: install matplotlib or altair")


def tails(histograms: Mapping[str, Histogram], library: Optional[str]) -> Any:
    """Draw the fraction of requests that are slower than a latency, a line for each histogram."""
    lines = {}
    for name, histogram in histograms.items():
        latencies, fractions = histogram.slower_than()
        # The last bin has none slower, which a logarithmic axis cannot show.
        lines[name] = ([ns / 1e6 for ns in latencies[:-1]], fractions[:-1])
    x, y = "latency, ms", "fraction of requests that are slower"
    if choose_plot_library(library) == "matplotlib":
        _, axes = importlib.import_module("matplotlib.pyplot").subplots()
        for name, (latencies_ms, fractions) in lines.items():
            axes.step(latencies_ms, fractions, where="post", label=name)
        axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
        axes.grid(alpha=0.3)
        axes.legend()
        return axes
    altair = importlib.import_module("altair")
    points = [
        {x: latency, y: fraction, "policy": name}
        for name, line in lines.items()
        for latency, fraction in zip(*line)
    ]
    chart = altair.Chart(altair.Data(values=points)).mark_line(interpolate="step-after")
    return chart.encode(
        x=altair.X(x, type="quantitative").scale(type="log"),
        y=altair.Y(y, type="quantitative").scale(type="log"),
        color=altair.Color("policy", type="nominal", sort=None),
    )


def heat_map(
    columns: Sequence[str],
    rows: Sequence[str],
    percent: Sequence[Sequence[float]],
    library: Optional[str],
) -> Any:
    """Draw percentages by row and column, with their values."""
    if choose_plot_library(library) == "matplotlib":
        size = (2 + 1.2 * len(columns), 1.5 + 0.3 * len(rows))
        _, axes = importlib.import_module("matplotlib.pyplot").subplots(
            figsize=size, layout="constrained"
        )
        axes.imshow(percent, aspect="auto", cmap="Blues", vmin=0, vmax=200)
        axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
        axes.set_yticks(range(len(rows)), rows)
        for y, values in enumerate(percent):
            for x, value in enumerate(values):
                axes.text(x, y, f"{value:.0f}", ha="center", va="center")
        axes.set_title("percent of the best policy's score")
        return axes
    altair = importlib.import_module("altair")
    cells = [
        {"policy": row, "job": column, "percent": value}
        for row, values in zip(rows, percent)
        for column, value in zip(columns, values)
    ]
    base = altair.Chart(altair.Data(values=cells)).encode(
        x=altair.X("job", type="nominal", sort=None),
        y=altair.Y("policy", type="nominal", sort=None),
    )
    scale = altair.Scale(scheme="blues", domain=[0, 200])
    return base.mark_rect().encode(
        color=altair.Color("percent", type="quantitative", scale=scale)
    ) + base.mark_text().encode(text=altair.Text("percent", type="quantitative", format=".0f"))
