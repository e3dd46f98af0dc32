"""The life of the process: its exit codes, what ends it, and what it tells while it starts and stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast
from unittest import mock

import pytest

from gateway.api.aiohttp_insides import list_connections
from gateway.api.state import make_gateway
from gateway.api.wire import make_connection
from gateway.base.process import ExitCode
from gateway.config.records import Config
from gateway.ledger.records import DatabaseUrl, LedgerError, LedgerLocked, LedgerMismatch
from gateway.server import serve
from gateway.server.drain import Signals
from gateway.server.first_start import find_key_file
from gateway.server.listener import CannotListen, Listener
from gateway.server.systemd import BadSocket
from tests.support.extras import need_extra
from tests.support.settings import MODEL, OPENAI, load
from tests.support.stand_in import URL, stand_in
from tests.support.waiting import until

CONFIG = """
[server]
drain_seconds = 7
[providers.demo]
dialect = "demo"
[providers.vendor]
dialect = "chat"
base_url = "https://api.example.com/v1"
api_key = "env:NO_SUCH_API_KEY"
[models.echo]
routes = ["demo/echo"]
price = "free"
[models.large]
routes = ["vendor/large"]
price = "free"
"""


class Ear:
    """A service manager that writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def notify(self, *states: str) -> None:
        self.heard += states


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LedgerMismatch("the books do not add up"), ExitCode.AUDIT_MISMATCH),
        (LedgerLocked("another process serves"), ExitCode.UNAVAILABLE),
        (LedgerError("no disk"), ExitCode.UNAVAILABLE),
        (CannotListen("the address is in use"), ExitCode.UNAVAILABLE),
        (BadSocket("it does not listen"), ExitCode.UNAVAILABLE),
    ],
)
def test_a_start_that_fails_says_why_and_has_its_exit_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    code: ExitCode,
) -> None:
    async def fail(*_: object) -> None:
        raise error

    ear = Ear()
    monkeypatch.setattr(serve, "_serve", fail)
    writer = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(serve, "set_up_logging", lambda: writer)
    monkeypatch.setattr(serve, "raise_file_limit", lambda: None)
    monkeypatch.setattr("gateway.server.systemd.take_manager", lambda _: ear)
    assert serve.run(load(tmp_path, CONFIG)) == code
    assert ear.heard == [f"STATUS={error}"]
    assert str(error) in caplog.text
    assert "Traceback" not in caplog.text


async def run_forever() -> None:
    await asyncio.Event().wait()


async def end() -> None:
    """No request could be charged."""


async def lose() -> None:
    raise LedgerError("another gateway took over the requests of this one")


async def fail() -> None:
    raise KeyError("x")


STOPPED: Final = "stopping: the ledger commits nothing any more; restart the gateway"


@pytest.mark.parametrize(
    ("writer", "told"),
    [
        (run_forever, []),
        (end, [("CRITICAL", STOPPED)]),
        (lose, [("CRITICAL", "stopping: another gateway took over the requests of this one")]),
        (fail, [("ERROR", "the ledger failed"), ("CRITICAL", STOPPED)]),
    ],
)  # fmt: skip
async def test_it_ends_well_by_a_signal_and_at_once_without_the_ledgers_writer(
    caplog: pytest.LogCaptureFixture,
    writer: Callable[[], Awaitable[None]],
    told: list[tuple[str, str]],
) -> None:
    """Requests in flight may end if it is a signal; a bug is told with its traceback."""
    stop, is_well = Signals(), writer is run_forever
    if is_well:
        stop.note_stop()
    ledger = cast("Any", SimpleNamespace(wait_ended=writer))
    assert await serve._wait_for_end(ledger, stop) is is_well
    assert stop.second.is_set() is not is_well
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == told
    assert [one.levelname for one in caplog.records if one.exc_info] == ["ERROR"] * (writer is fail)


async def test_the_ledger_is_opened_where_the_configuration_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []

    def refuse(location: object, **options: object) -> None:
        opened.extend((location, options["retention_months"]))
        raise LedgerError("no connection")

    monkeypatch.setattr(serve, "open_ledger", refuse)
    monkeypatch.setattr(serve, "catch_signals", Signals)
    stand_in(monkeypatch, tmp_path / "behind.db")
    for table in ("", f'[storage]\nurl = "{URL}"\nretention_months = 13\n'):
        with pytest.raises(LedgerError, match="no connection"):
            await serve._serve(
                load(tmp_path, CONFIG + table), cast("Any", Ear()), cast("Any", None)
            )
    assert opened == [tmp_path / "gateway.db", 0, DatabaseUrl(URL), 13]


def test_providers_that_are_off_are_named_with_their_models(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gateway.serve")
    listener = Listener((), ("http://127.0.0.1:1", "unix:/x"), "127.0.0.1:1", is_passed=False)
    ear = Ear()
    gateway = cast("Any", SimpleNamespace(draining=False))
    serve._announce(cast("Any", ear), listener, gateway, load(tmp_path, CONFIG), "READY=1")
    told = "listening on http://127.0.0.1:1, unix:/x, models: 1"
    assert ear.heard == ["READY=1", f"STATUS={told}"]
    off, listening = (record.getMessage() for record in caplog.records)
    assert off.startswith("provider vendor is off: ")
    assert off.endswith("(large)")
    assert listening == told
    gateway.draining = True  # a reload in the meantime must not say that it listens
    serve._announce(cast("Any", ear), listener, gateway, load(tmp_path, CONFIG))
    assert ear.heard == ["READY=1", f"STATUS={told}"]


@need_extra("advice")
def test_secrets_that_others_can_read_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener((), ("http://127.0.0.1:1",), "127.0.0.1:1", is_passed=False)
    config = replace(load(tmp_path, f'{OPENAI}api_key = "word"\n{MODEL}'), doubts=("a doubt",))
    gateway = cast("Any", SimpleNamespace(draining=False))
    for mode in (0o600, 0o644):
        config.path.chmod(mode)
        serve._announce(cast("Any", Ear()), listener, gateway, config)
    doubt, warned, again = caplog.messages
    assert doubt == again == "a doubt"
    assert "written out: [providers.openai] api_key. Type `chmod o= " in warned


def test_systemd_waits_on_while_a_start_goes_on() -> None:
    ear = Ear()
    serve._tell_starting(cast("Any", ear), "migrating")
    assert ear.heard == ["STATUS=starting: migrating", "EXTEND_TIMEOUT_USEC=60000000"]


async def test_a_connection_has_no_timer_of_aiohttps(tmp_path: Path) -> None:
    """The watch of all connections ends it: it knows of time in which the process stood."""
    gateway = make_gateway(load(tmp_path, CONFIG), mock.Mock())
    runner, server = await serve._set_up(gateway)
    loop = asyncio.get_running_loop()
    connect = partial(make_connection, gateway, server)
    listener = await loop.create_server(connect, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
    await until(lambda: list_connections(server), "the connection")
    (connection,) = list_connections(server)
    assert connection._keepalive_handle is None
    writer.transport.abort()
    listener.close()
    await runner.cleanup()
    gateway.close()


async def start_first(config: Config, *, accounts: list[object]) -> None:
    ledger = SimpleNamespace(accounts=lambda: accounts, find_key=lambda _: None)
    await serve._start_first(config, cast("Any", ledger), "127.0.0.1:1")


async def test_a_key_that_was_left_in_the_clear_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = load(tmp_path, CONFIG)
    await start_first(config, accounts=[1])
    assert not caplog.records
    file = find_key_file(config)
    file.write_text("sk-ru-secret")
    await start_first(config, accounts=[1])
    (record,) = caplog.records
    assert str(file) in record.getMessage()
    assert "sk-ru-secret" not in caplog.text


def test_a_signal_ends_a_start_that_waits_for_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process may upgrade it for minutes."""
    signals = Signals()

    @asynccontextmanager
    async def wait(*_: object, **__: object) -> AsyncIterator[None]:
        signals.note_stop()
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(serve, "open_ledger", wait)
    monkeypatch.setattr(serve, "catch_signals", lambda: signals)
    monkeypatch.setattr(serve, "set_up_logging", lambda: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(serve, "raise_file_limit", lambda: None)
    caplog.set_level(logging.INFO, "gateway.serve")
    assert serve.run(load(tmp_path, CONFIG)) == ExitCode.OK
    assert caplog.messages[-1] == "stopping during the start"
