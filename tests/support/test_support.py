"""The harness's own checks: rules of streams, the search for secrets, tables of rows."""

from __future__ import annotations

import inspect
from itertools import islice
from pathlib import Path

import pytest

from tests.support import process, replies
from tests.support.chat import read_broken_stream, read_stream, split_events
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


GOOD = [chunk | {"model": "m", "usage": None} for chunk in replies.text_chunks(["Hel", "lo"])]


def test_stream_rules_let_a_good_stream_pass() -> None:
    body = b"".join(replies.sse(event) for event in GOOD) + replies.DONE
    assert read_stream(body, "m").text == "Hello"


BROKEN: dict[str, list[object]] = {
    "model": [chunk | {"model": "other"} for chunk in GOOD],
    "id": [*GOOD[:-1], GOOD[-1] | {"id": "chatcmpl-2"}],
    "id shape": [chunk | {"id": "msg_1"} for chunk in GOOD],
    "object": [GOOD[0] | {"object": "chat.completion.done"}, *GOOD[1:]],
    "no role": [*GOOD[1:]],
    "role twice": [GOOD[0], *GOOD],
    "no finish": [*GOOD[:-1]],
    "finish with content": [
        *GOOD[:-1],
        replies.chunk({"content": "x"}, finish="stop") | {"model": "m"},
    ],
    "usage chunk": [*GOOD, replies.chunk(None, usage=replies.USAGE) | {"model": "m"}],
    "two lines": [*GOOD[:-1], b"event: x\n" + replies.sse(GOOD[-1])],
    "done twice": [*GOOD, replies.DONE],
    "unknown framing": [*GOOD, b"id: 7\n\n"],
}


@each_row("name", BROKEN)
def test_stream_rules_catch(name: str) -> None:
    body = b"".join(replies.sse(event) for event in BROKEN[name]) + replies.DONE
    with pytest.raises((AssertionError, KeyError)):
        read_stream(body, "m")


def test_broken_stream_rules_want_an_error_and_no_end() -> None:
    error = {"message": "gone", "type": "server_error", "param": None, "code": "upstream_error"}
    body = b"".join(replies.sse(event) for event in [*GOOD[:-1], {"error": error}])
    assert read_broken_stream(body, "m", "upstream_error").text == "Hello"
    with pytest.raises((AssertionError, ValueError)):
        read_broken_stream(body + replies.DONE, "m", "upstream_error")
    with pytest.raises(AssertionError):
        read_broken_stream(b"".join(replies.sse(event) for event in GOOD), "m", "upstream_error")


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
