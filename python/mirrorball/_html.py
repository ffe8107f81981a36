"""A comparison in a notebook: its verdict, its matrix, and the command that repeats it."""

from __future__ import annotations

from html import escape
from typing import Any, List, Mapping

_CELL = "padding:2px 8px;text-align:right"


def comparison_html(study: Mapping[str, Any]) -> str:
    """Return a comparison as HTML without scripts."""
    matrix = study["matrix"]
    heads = ["policy", *matrix["jobs"], "geometric mean", "worst job"]
    lines = ["<table><thead><tr>"]
    lines += [f"<th>{escape(head)}</th>" for head in heads]
    lines += ["</tr></thead><tbody>"]
    for row in matrix["rows"]:
        lines += _row(row, is_best=row["policy"] == study["verdict"].get("policy"))
    lines += ["</tbody></table>"]
    sentence = escape(study["verdict"]["sentence"])
    command = escape(study["plan"]["command"])
    array = escape(study["plan"]["array"]["name"])
    return (
        f"<p><b>{array}</b>: {sentence}</p>"
        f"<p>Percent of the best policy's score:</p>{''.join(lines)}"
        f"<p><code>{command}</code></p>"
    )


def _row(row: Mapping[str, Any], is_best: bool) -> List[str]:
    name = escape(row["policy"])
    lines = [f"<tr><th style='text-align:left'>{'★ ' if is_best else ''}{name}</th>"]
    for percent in [*row["percent"], row["geometric_mean"]]:
        # Colours of one hue, of which the darker is the better; text is readable on all of them.
        strength = max(0.0, min(percent / 100, 1.0)) ** 2 * 0.6
        lines.append(
            f"<td style='{_CELL};background:rgba(31,119,180,{strength:.2f})'>{percent:.1f}</td>"
        )
    worst = f"{row['worst_percent']:.1f} ({escape(row['worst_job'])})"
    return [*lines, f"<td style='{_CELL}'>{worst}</td></tr>"]
