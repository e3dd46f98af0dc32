"""The command `top`: what it reads, how it fits a terminal, and how it ends."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gateway.base.ids import make_request_id
from gateway.base.money import Tokens
from gateway.base.times import HOUR_MS, MINUTE_MS
from gateway.config.load import load_config
from gateway.config.records import Config
from gateway.extras.monitor.screen import _BEGIN, _END, draw, has_colours
from gateway.extras.monitor.snapshot import (
    LATELY_MS,
    Balance,
    Call,
    ProviderLine,
    Snapshot,
    SnapshotBook,
    describe,
)
from gateway.extras.monitor.verbs import look
from gateway.extras.observations.records import CallSums, UpstreamView
from gateway.extras.operations.health import judge
from tests.ledger.contract.kit import NOW_MS, TOKENS, Place, admission, find_key, settlement
from tests.ledger.contract.test_audit import SUM_NANO, spend
from tests.support.cli import CONFIG, make_cli
from tests.support.rows import each_row

ID: Final = "req_018bcfe568000000"


def make_snapshot(calls: int = 1) -> Snapshot:
    """Make one whose lists have so many rows."""
    sums = CallSums(12, 7)
    failing = ProviderLine("vendor", 3, judge([UpstreamView("vendor", "m", sums, sums, sums)]))
    call = Call(ID, "alice", "demo/echo", "vendor", NOW_MS - 4200, 310, 61_000)
    return Snapshot(
        at_ms=NOW_MS,
        currency="EUR",
        in_flight=3,
        calls=250,
        tokens=Tokens(9_000, cached_input=60_000, cache_write=1_000, output=2345),
        charged_nano=420_000_000,
        providers=[failing] * calls,
        longest=[call] * calls,
        slowest=[call] * calls,
        balances=[Balance("bob", -10_224_999_999, 1_500_000_000)] * calls,
    )


def test_a_screen_has_all_at_a_glance() -> None:
    assert (
        draw(make_snapshot(), 100, 30)
        == f"""\
2023-11-14 22:13:20 UTC   in flight 3
calls/s 4.1   tokens/s 1,205.7   charged/min 0.42 EUR

PROVIDER  IN FLIGHT  LAST HOUR  FAILED  STATE
vendor            3         12       7  failing (7 of 12 in its latest ten minutes)

IN FLIGHT FOR  ACCOUNT  MODEL      PROVIDER  ID
        4.2 s  alice    demo/echo  vendor    {ID}

SLOWEST, 10 MIN  FIRST BYTE  ACCOUNT  MODEL      PROVIDER  ID
         61.0 s       0.3 s  alice    demo/echo  vendor    {ID}

LOWEST BALANCE EUR  CHARGED, 24 H  ACCOUNT
            -10.23           1.50  bob"""
    )


def test_a_screen_fits_any_terminal() -> None:
    for height in range(1, 60):
        lines = draw(make_snapshot(50), 30, height).splitlines()
        assert len(lines) <= height
        assert max(map(len, lines)) <= 30
        assert height < 5 or len(lines) >= height - 2, "no room is wasted"
    assert "No calls today" in draw(make_snapshot(0), 80, 24)


def test_wide_characters_take_two_columns() -> None:
    snapshot = replace(make_snapshot(), balances=[Balance("阿里云" * 9, 1, 1)])
    assert draw(snapshot, 48, 30).splitlines()[-1].endswith("  阿里云阿里云")


def test_colours_say_what_fails_and_what_is_slow() -> None:
    shown = draw(make_snapshot(), 40, 30, coloured=True)
    assert re.findall(r"\x1b\[(3\d)m *([^ ]+)", shown) == [
        ("31", "vendor"), ("33", "61.0"), ("31", "-10.23"),
    ]  # fmt: skip
    assert re.sub(r"\x1b\[\d+m", "", shown) == draw(make_snapshot(), 40, 30)


@each_row(
    ("is_terminal", "environ", "has_some"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals_whose_owner_wants_them(
    is_terminal: bool, environ: dict[str, str], has_some: bool
) -> None:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(out, "isatty", lambda: is_terminal)
        patch.delenv("NO_COLOR", raising=False)
        for name, value in environ.items():
            patch.setenv(name, value)
        assert has_colours(out) is has_some


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "gateway.toml").write_text(CONFIG, encoding="utf-8")
    return load_config(tmp_path / "gateway.toml", {}, read_keys=False)


async def test_it_reads_what_happens_now(place: Place, config: Config) -> None:
    """Calls of the last minute make the rates, complete ones of the last ten minutes are ranked."""
    digest = place.seed()
    place.add_account("idle")
    place.add_account("poor", credit_nano=7)
    poor = place.add_key("poor")
    spans = {"now": (50, 20), "before": (9 * 60, 8 * 60), "long ago": (20 * 60, 15)}
    made: dict[str, str] = {}
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        for name, (began, ended) in spans.items():
            started_ms = NOW_MS - began * 1000
            made[name] = make_request_id(started_ms)
            hold = ledger.hold(key, admission(id_=made[name], started_ms=started_ms))
            await ledger.settle(hold, settlement(5, ended_ms=NOW_MS - ended * 1000))
        long_ago = admission(7, id_=make_request_id(NOW_MS - HOUR_MS), started_ms=NOW_MS - HOUR_MS)
        await ledger.settle(
            ledger.hold(find_key(ledger, poor), long_ago), settlement(7, ended_ms=NOW_MS - HOUR_MS)
        )
        failed_id = make_request_id(NOW_MS - 5 * MINUTE_MS)
        failed = settlement(0, outcome="upstream_error", ended_ms=NOW_MS - 2 * MINUTE_MS)
        await ledger.settle(
            ledger.hold(key, admission(id_=failed_id, started_ms=NOW_MS - 5 * MINUTE_MS)), failed
        )
        pending_id = make_request_id(NOW_MS - MINUTE_MS)
        pending = ledger.hold(key, admission(id_=pending_id, started_ms=NOW_MS - MINUTE_MS))
        await ledger.wait_admitted(pending)
        with place.open_books() as books:
            seen = SnapshotBook(books).read(config)
        with place.open_books(now_ms=NOW_MS + 30 * HOUR_MS) as books:
            assert SnapshotBook(books).read(config).balances == []
        await ledger.settle(pending, settlement(5))
    assert (seen.in_flight, seen.calls, seen.charged_nano) == (1, 1, 5)
    assert seen.tokens == TOKENS
    assert [(one.provider, one.in_flight) for one in seen.providers] == [("demo", 1)]
    assert [one.request_id for one in seen.longest] == [pending_id]
    assert [(one.request_id, one.total_ms) for one in seen.slowest] == [
        (made["before"], 60_000),
        (made["now"], 30_000),
    ]
    assert [(one.account, one.charged_nano) for one in seen.balances] == [("poor", 7), ("a", 15)]
    assert describe(seen)["charged_nano"] == 5


async def test_large_charges_are_summed(place: Place, config: Config) -> None:
    await spend(place)
    with place.open_books(now_ms=LATELY_MS) as books:  # the ids of these calls are low
        seen = SnapshotBook(books).read(config)
    assert [one.charged_nano for one in seen.balances] == [seen.charged_nano] == [SUM_NANO]


async def test_five_calls_are_the_slowest(place: Place, config: Config) -> None:
    async with place.serve_key() as (ledger, key):
        for took_seconds in (3, 9, 1, 8, 2, 7, 6):
            started_ms = NOW_MS - MINUTE_MS
            made = admission(id_=make_request_id(started_ms), started_ms=started_ms)
            ended = settlement(5, ended_ms=started_ms + took_seconds * 1000)
            await ledger.settle(ledger.hold(key, made), ended)
        with place.open_books() as books:
            seen = SnapshotBook(books).read(config)
    assert [one.total_ms for one in seen.slowest] == [9000, 8000, 7000, 6000, 3000]


def test_it_looks_until_it_is_ended() -> None:
    seen: list[Snapshot] = []
    waits = iter([False, False, True])
    look(make_snapshot, seen.append, lambda: next(waits))
    assert len(seen) == 3


def test_it_prints_once_without_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = make_cli(tmp_path, capsys)
    cli.done("account", "add", "alice")
    assert "\x1b" not in cli.done("top").out
    assert cli.done("top", "--once", "--json").json["in_flight"] == 0


OnTerminal = Callable[[bytes | signal.Signals], tuple[int, str]]


@pytest.fixture
def on_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> OnTerminal:
    """Run `top` on a terminal of its own, with keys or a signal once it is drawn; its exit code and output."""
    cli = make_cli(tmp_path, capsys)
    cli.done("account", "add", "alice")

    def run(end: bytes | signal.Signals) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        modes, name = termios.tcgetattr(theirs), os.ttyname(theirs)
        # The shell leads a session, so the terminal that it opens is the one whose Ctrl-C it gets.
        words = f"exec '{sys.executable}' -m gateway --config '{cli.config}' top --every 60 <{name} >{name} 2>&1"
        with subprocess.Popen(["sh", "-c", words], start_new_session=True) as process:
            shown = b""
            while b"No calls today" not in shown:
                shown += os.read(ours, 4096)
            live = termios.tcgetattr(theirs)
            if isinstance(end, signal.Signals):
                os.killpg(process.pid, end)
            else:
                os.write(ours, end)
            try:
                code = process.wait(60)
            finally:
                process.kill()
        assert live[6][termios.VSUSP] == b"\0", "Ctrl-Z does not stop it"
        assert termios.tcgetattr(theirs) == modes, "keys are echoed again"
        os.write(theirs, b"\0")  # behind all that was written, which comes in parts
        while b"\0" not in shown:
            shown += os.read(ours, 4096)
        os.close(ours)
        os.close(theirs)
        return code, shown.decode()

    return run


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize(
    ("end", "code"),
    [(b"q", 0), (b"\x1aq", 0), (b"\x03", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["q", "ctrl-z", "ctrl-c", "term", "hup"],
)
def test_it_ends_and_gives_the_terminal_back(
    on_terminal: OnTerminal, end: bytes | signal.Signals, code: int
) -> None:
    found, shown = on_terminal(end)
    assert (found, shown.count(_BEGIN), shown.count(_END)) == (code, 1, 1)
    assert shown.startswith(_BEGIN)
    assert shown.rstrip("^C\r\n\0").endswith(_END)
