"""Run one statement on the event loop, which saves waking a thread twice per round.

See "Asynchronous Command Processing" in PostgreSQL's documentation of libpq. Each call handles the bytes
received so far; the loop calls again when there are more.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

Parameter = bytes | int | str | None


async def fetch_value(
    connection: PGconn, statement: bytes, parameters: Sequence[Parameter]
) -> bytes:
    """Run a statement with one row of one column, and return that as text.

    Nobody else uses the connection meanwhile. Raises psycopg.Error.
    """
    connection.send_query_params(statement, [_encode(one) for one in parameters])
    result = await _Exchange(connection).answer
    if result.status != ExecStatus.TUPLES_OK:
        raise error_from_result(result)
    value = result.get_value(0, 0)
    assert value is not None
    return value


def _encode(parameter: Parameter) -> bytes | None:
    if parameter is None or isinstance(parameter, bytes):
        return parameter
    return str(parameter).encode()


class _Exchange:
    """A statement under way, and its result so far."""

    def __init__(self, connection: PGconn) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._result: PGresult | None = None
        self.answer: asyncio.Future[PGresult] = self._loop.create_future()
        still_writes = connection.flush()
        # libpq closes a socket that broke, and its number is soon another's: the loop has one of its own.
        self._socket = os.dup(connection.socket)
        self._loop.add_reader(self._socket, self._run, self._read)
        if still_writes:
            self._loop.add_writer(self._socket, self._run, self._write)

    def _run(self, step: Callable[[], PGresult | None]) -> None:
        """Take a step, and answer at the end, whatever it is."""
        result: PGresult | Exception | None
        try:
            result = step()
        except Exception as error:  # noqa: BLE001 - who waits for the answer gets it
            result = error
        if result is None:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        os.close(self._socket)
        if self.answer.done():  # the waiter is gone
            return
        if isinstance(result, Exception):
            self.answer.set_exception(result)
        else:
            self.answer.set_result(result)

    def _write(self) -> None:
        if not self._connection.flush():
            self._loop.remove_writer(self._socket)

    def _read(self) -> PGresult | None:
        """Take the bytes that came; return the result once it is complete.

        uvloop reports a broken socket only once, so all bytes are taken each time.
        """
        while True:
            self._connection.consume_input()
            while not self._connection.is_busy():
                result = self._connection.get_result()
                if result is None:
                    return self._result
                self._result = result
            if not self._has_more():
                return None

    def _has_more(self) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))
