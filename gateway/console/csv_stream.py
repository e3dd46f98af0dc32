"""Stream a list of any length as a CSV file.

The rows are read in chunks, the latest first, so the file is never in memory as a whole and other
requests get the books' thread between two chunks. Each chunk begins below the last row of the one
before; rows that are added meanwhile belong above the first chunk and move nothing. If the file
cannot be finished the connection is reset, so that no browser takes it for a complete one.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from aiohttp import hdrs, web

from gateway.admin.fields import csv_lines, write_csv_cells
from gateway.api.state import make_headers
from gateway.console.origin import API_HEADERS
from gateway.console.state import ConsoleRequest
from gateway.ledger.sql.books.books import Books
from gateway.times import DAY_MS, format_day

log = logging.getLogger("gateway.console")

CHUNK_ROWS: Final = 250
"""Rows per read, which takes the books' thread a few milliseconds."""

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, for 0 seconds: closing the socket sends a reset."""

Place = TypeVar("Place")
Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Chunk(Generic[Place]):
    rows: Sequence[Json]
    """The rows of the JSON list. Only members named as columns are written."""
    after: Place | None
    """Position of the last row, after which the next chunk begins; None after the last chunk."""


async def stream_csv(
    request: ConsoleRequest,
    topic: str,
    columns: Sequence[str],
    read: Callable[[Books, Place | None], Chunk[Place]],
) -> web.StreamResponse:
    """Reply with `TOPIC-DAY.csv`: a line of `columns`, then all rows that `read` returns.

    `read` runs in the books' thread and gets None for the first chunk. Errors it raises there
    become ordinary error replies, as the response has not begun.
    """
    text, after = await request.run(partial(_render, columns, read, None))
    response = _make_response(request, topic)
    with _whole_or_cut(request):
        await response.prepare(request.http)
        if request.http.method == hdrs.METH_HEAD:
            return response
        await response.write((csv_lines([columns]) + text).encode())
        while after is not None:
            text, after = await request.run(partial(_render, columns, read, after))
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
    return csv_lines(write_csv_cells(row, columns) for row in chunk.rows), chunk.after


def _make_response(request: ConsoleRequest, topic: str) -> web.StreamResponse:
    call = request.call
    day = format_day(call.started_ms // DAY_MS)
    headers = {
        **API_HEADERS,
        **make_headers(call),  # the front comes too late for these
        hdrs.CONTENT_TYPE: "text/csv; charset=utf-8",
        hdrs.CONTENT_DISPOSITION: f'attachment; filename="{topic}-{day}.csv"',
    }
    return web.StreamResponse(headers=headers)


@contextmanager
def _whole_or_cut(request: ConsoleRequest) -> Iterator[None]:
    """Reset the connection unless the whole body was written. A caller who left is not an error."""
    is_whole = False
    try:
        yield
        is_whole = True
    except ConnectionError:
        log.info("%s: the caller left before the download was complete", request.call.request_id)
    finally:
        if not is_whole:
            _reset(request.http)


def _reset(request: web.Request) -> None:
    """Reset the connection.

    To a proxy that speaks HTTP/1.0 the body is not chunked, so a plain close would look like its
    proper end.
    """
    transport = request.transport
    if transport is None:
        return
    with suppress(OSError):  # the caller may have closed the connection
        socket_ = transport.get_extra_info("socket")
        socket_.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
