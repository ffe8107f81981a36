"""`league`: standings, and their frame."""

from __future__ import annotations

import mirrorball as mb


def test_a_league_has_standings_and_a_frame() -> None:
    def call() -> mb.League:
        return mb.league("research/sed", ["btrfs/pid"], sample=2, seed=5, quick=True)

    league = call()
    assert league.subjects == ["research/sed"]
    assert set(league.rows) == {"research/sed", "btrfs/pid", "oracle", "oracle-fair"}
    frame = league.frame("pandas")
    assert sorted(set(frame["pairing"])) == [1, 2]
    assert len(frame) == 2 * 4
    assert "Random league: 2 pairings, 1 rival, seed 5" in str(league)
    assert call().standings == league.standings
