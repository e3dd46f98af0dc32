"""Connections that stall are aborted, each by its own limit, on a clock that the test sets."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.server.connections import ConnectionWatch
from tests.server.unit_files import SERVER

HEADER_SECONDS = 10.0
STALL_SECONDS = 4.0


@dataclass
class Transport:
    unread: int = 0
    aborted: bool = False

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


@dataclass(eq=False)
class Connection:
    """A connection as aiohttp has it."""

    transport: Transport | None = field(default_factory=Transport)
    _request_in_progress: bool = False
    _next_keepalive_close_time: float = 0.0

    @property
    def is_aborted(self) -> bool:
        return self.transport is not None and self.transport.aborted


def watch(*connections: Connection) -> ConnectionWatch:
    server = cast("Any", SimpleNamespace(connections=connections, _kwargs={}))
    return ConnectionWatch(server, HEADER_SECONDS, STALL_SECONDS)


@pytest.mark.parametrize(("unread", "limit"), [(0, HEADER_SECONDS), (5, STALL_SECONDS)])
def test_a_stalled_connection_is_aborted_at_its_limit(unread: int, limit: float) -> None:
    """One sends no whole head, the other does not read its reply."""
    connection = Connection(Transport(unread))
    watching = watch(connection)
    watching.sweep(100.0)
    watching.sweep(100.0 + limit - 0.1)
    assert not connection.is_aborted
    watching.sweep(100.0 + limit)
    assert connection.is_aborted


@pytest.mark.parametrize(("unread", "limit"), [(0, 3.0), (5, 2.0)])
def test_limits_can_change_while_connections_are_open(unread: int, limit: float) -> None:
    connection = Connection(Transport(unread))
    watching = watch(connection)
    watching.sweep(100.0)
    settings = dataclasses.replace(SERVER, header_seconds=3.0, stall_seconds=2.0)
    watching.go_by(cast("Any", SimpleNamespace(server=settings)))
    watching.sweep(100.0 + limit - 0.1)
    assert not connection.is_aborted
    watching.sweep(100.0 + limit)
    assert connection.is_aborted


def test_a_request_that_is_served_takes_as_long_as_it_takes() -> None:
    connection = Connection(_request_in_progress=True)
    watching = watch(connection)
    for now in (0.0, 1000.0):
        watching.sweep(now)
    assert not connection.is_aborted


def test_progress_starts_the_time_anew() -> None:
    reading, asking = Connection(Transport(9)), Connection()
    watching = watch(reading, asking)
    for number in range(10):
        assert reading.transport is not None
        reading.transport.unread = 100 - number
        asking._next_keepalive_close_time = float(number)  # another request was served
        watching.sweep(number * 3.9)
    assert not reading.is_aborted
    assert not asking.is_aborted


def test_a_connection_without_a_transport_is_left_alone() -> None:
    watching = watch(Connection(transport=None))
    watching.sweep(0.0)
    watching.sweep(1000.0)
    watching.abort_all()


@pytest.mark.parametrize(
    ("busy", "unread", "idle"), [(False, 0, True), (True, 0, False), (False, 1, False)]
)
def test_idle_is_who_serves_nothing_and_whose_replies_were_read(
    *, busy: bool, unread: int, idle: bool
) -> None:
    assert watch(Connection(), Connection(Transport(unread), busy)).is_idle() is idle


def test_all_are_aborted_at_the_end() -> None:
    connections = [Connection(), Connection(_request_in_progress=True)]
    watch(*connections).abort_all()
    assert all(one.is_aborted for one in connections)
