"""The harness's own checks: the search for secrets, ports, tables of rows."""

from __future__ import annotations

import inspect
from itertools import islice
from pathlib import Path

import pytest

from tests.support import process
from tests.support.chat import split_events
from tests.support.process import GatewayProcess
from tests.support.rows import each_row


def test_canaries_are_found_where_they_stand(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, 1, [b"secret-canary"])
    gateway.config.write_bytes(b"api_key = secret-canary")
    assert gateway.find_canaries() == []
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "wal").write_bytes(b"\x00secret-canary\x00")
    assert len(gateway.find_canaries()) == 1


def test_runs_beside_each_other_draw_other_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that one draws of its own, as none is drawn twice until then."""
    drawn, own = list[set[int]](), len(process.PORTS) // process.WORKERS
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")
    for first in ("0", "3", "6"):
        monkeypatch.setenv("GATEWAY_PORTS", first)
        drawn.append({*islice(process._shuffle_ports(), own)})
    assert len(set[int]().union(*drawn)) == sum(map(len, drawn)) == 3 * own


def test_comments_stand_only_between_events() -> None:
    assert split_events(b": wait\n\ndata: 1\n\n") == [b"1"]


def test_all_rows_are_played_and_those_that_fail_are_named(tmp_path: Path) -> None:
    played = []

    @each_row("first", [1, 2])
    @each_row(("second", "third"), [("a", 0), pytest.param("b", 1, id="last")])
    def check(tmp_path: Path, first: int, second: str, third: int) -> None:
        played.append((first, second, third, tmp_path.name))
        if second == "b":
            with pytest.raises(ValueError, match="never"):
                pass

    with pytest.raises(ExceptionGroup, match="2 rows failed") as caught:
        check(tmp_path=tmp_path)
    assert list(inspect.signature(check).parameters) == ["tmp_path"]
    assert [one[:3] for one in played] == [(1, "a", 0), (1, "b", 1), (2, "a", 0), (2, "b", 1)]
    assert len({folder for *_, folder in played}) == 4
    notes = [error.__notes__ for error in caught.value.exceptions]
    assert notes == [["row: {'first': 1}; last"], ["row: {'first': 2}; last"]]
