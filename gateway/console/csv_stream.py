"""A list as a CSV file of any length, in chunks: nobody waits behind it, and no memory holds it.

Each chunk is a visit to the books of its own and begins below the last row of the one before, the
latest rows first; what comes in meanwhile is above the first chunk and moves nothing. A file that
cannot be finished is cut off in the middle of a transfer, so no browser takes it for a whole one.
"""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from aiohttp import hdrs, web

from gateway.console.headers import API_HEADERS
from gateway.console.state import Visit
from gateway.csv_text import Figure, csv_lines
from gateway.ledger.books import Books
from gateway.state import CALL, make_headers
from gateway.times import DAY_MS, format_day

log = logging.getLogger("gateway.console")

CHUNK_ROWS: Final = 250
"""A few milliseconds of the books' thread."""

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""Linger, for 0 seconds."""

Place = TypeVar("Place")
Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Chunk(Generic[Place]):
    rows: Sequence[Json]
    """As in the JSON list; of each the members that are columns."""
    after: Place | None
    """Where the next chunk begins; None after the last one."""


async def stream_csv(
    visit: Visit,
    topic: str,
    columns: Sequence[str],
    read: Callable[[Books, Place | None], Chunk[Place]],
) -> web.StreamResponse:
    """Reply with `TOPIC-DAY.csv`: a line of `columns`, then all rows that `read` gives.

    `read` runs on the desk's thread, with None first. What it raises then is an ordinary refusal.
    """
    text, after = await visit.run(partial(_render, columns, read, None))
    response = _make_response(visit, topic)
    with _whole_or_cut(visit.request):
        await response.prepare(visit.request)
        if visit.request.method == hdrs.METH_HEAD:
            return response
        await response.write((csv_lines([columns]) + text).encode())
        while after is not None:
            text, after = await visit.run(partial(_render, columns, read, after))
            await response.write(text.encode())
        await response.write_eof()
    return response


def _render(
    columns: Sequence[str],
    read: Callable[[Books, Place | None], Chunk[Place]],
    after: Place | None,
    books: Books,
) -> tuple[str, Place | None]:
    chunk = read(books, after)
    return csv_lines([_cell(row, name) for name in columns] for row in chunk.rows), chunk.after


def _cell(row: Json, name: str) -> str | int | None:
    value = row[name]
    if isinstance(value, bool):
        return "true" if value else "false"
    assert value is None or isinstance(value, str | int)
    is_amount = isinstance(value, str) and f"{name}_nano" in row
    return Figure(value) if is_amount else value


def _make_response(visit: Visit, topic: str) -> web.StreamResponse:
    call = visit.request[CALL]
    day = format_day(call.started_ms // DAY_MS)
    headers = {
        **API_HEADERS,
        **make_headers(call, time.monotonic()),  # the middleware comes too late for these
        hdrs.CONTENT_TYPE: "text/csv; charset=utf-8",
        hdrs.CONTENT_DISPOSITION: f'attachment; filename="{topic}-{day}.csv"',
    }
    return web.StreamResponse(headers=headers)


@contextmanager
def _whole_or_cut(request: web.Request) -> Iterator[None]:
    """Without its last chunk a reply is known to be unfinished; who left need not be told."""
    is_whole = False
    try:
        yield
        is_whole = True
    except ConnectionError:
        log.info("%s: the caller left in the middle of a download", request[CALL].request_id)
    finally:
        if not is_whole:
            _reset(request)


def _reset(request: web.Request) -> None:
    """Behind a proxy that speaks HTTP/1.0 there are no chunks: mere closing would be a clean end."""
    transport = request.transport
    if transport is None:
        return
    with suppress(OSError):  # closed by the caller meanwhile
        socket_ = transport.get_extra_info("socket")
        socket_.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
