"""Lists as JSON in pages, and as CSV of any length.

A cursor names the last row shown, so new rows do not shift the next page. For CSV the rows are read
in chunks, the latest first, so the file is never in memory as a whole and other requests get the
books' thread between two chunks. Each chunk begins below the last row of the one before; rows that
are added meanwhile belong above the first chunk and move nothing. If the file cannot be finished
the connection is reset, so that no browser takes it for a complete one.
"""

from __future__ import annotations

import base64
import logging
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import orjson
from aiohttp import hdrs, web

from gateway.api.front import make_headers
from gateway.base.times import DAY_MS, format_day
from gateway.extras.console.callers import API_HEADERS
from gateway.extras.console.errors import invalid_field
from gateway.extras.console.routes import Answer, ConsoleRequest
from gateway.extras.spreadsheets.tables import write_csv
from gateway.ledger.records import MAX_INTEGER
from gateway.ledger.sql.books import Books

log = logging.getLogger("gateway.console")

MAX_LIMIT: Final = 200
"""Rows of a page: reading so many takes the books' thread a few milliseconds."""
DEFAULT_LIMIT: Final = 50
"""Rows of a page if the request has no `limit`: two screens."""
CHUNK_ROWS: Final = 250
"""Rows per read, which takes the books' thread a few milliseconds."""
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, for 0 seconds: closing the socket sends a reset."""

Json = Mapping[str, object]
Position = tuple[str | int, ...]
Row = TypeVar("Row")
Place = TypeVar("Place")
ReadChunk = Callable[[Books, Place | None], tuple[Sequence[Json], Place | None]]
"""Reads the rows after a place; returns them with the last row's place, or None after the last chunk.

The rows are those of the JSON list; only members named as columns are written.
"""


@dataclass(frozen=True, slots=True)
class Page:
    """A requested page: `limit` rows after the position `after`; None means the first page."""

    http: web.Request
    limit: int
    after: Position | None
    rest: Position | None = None
    """Where the next page begins if all rows that were read are shown."""

    @property
    def wanted(self) -> int:
        """The number of rows to read: one more than is shown, to see whether there is a next page."""
        return self.limit + 1

    @property
    def after_number(self) -> int | None:
        return None if self.after is None else int(self.after[0])

    @property
    def after_text(self) -> str | None:
        return None if self.after is None else str(self.after[0])

    def answer(
        self,
        name: str,
        rows: Sequence[Row],
        describe: Callable[[Row], Json],
        locate: Callable[[Row], Position | str | int] = attrgetter("id"),
        /,
        **figures: object,
    ) -> Answer:
        """Return the reply: figures, the rows as `name`, the next cursor and a Link to the next page.

        `describe` gives a row's JSON, `locate` its position for the cursor.
        """
        shown = rows[: self.limit]
        after = locate(shown[-1]) if len(rows) > self.limit else self.rest
        cursor = None if after is None else _encode(after if isinstance(after, tuple) else (after,))
        headers = {}
        if cursor is not None:
            query_string = urlencode({**self.http.query, "cursor": cursor})
            headers["Link"] = f'<{quote(self.http.path)}?{query_string}>; rel="next"'
        body = {**figures, name: [describe(row) for row in shown], "next_cursor": cursor}
        return Answer(body, headers=headers)


def read_page(request: ConsoleRequest, *kinds: type) -> Page:
    """Read `limit` and `cursor`. Raises ConsoleError.

    `kinds` are the types of a position's members, by which a cursor of another list is refused.
    """
    query = request.query
    limit = query.integer("limit", 1, MAX_LIMIT, DEFAULT_LIMIT)
    cursor = query.text("cursor")
    return Page(request.http, limit, None if cursor is None else _decode(cursor, kinds))


def _encode(position: Position) -> str:
    # `=` would have to be escaped in the address of the next page.
    return base64.urlsafe_b64encode(orjson.dumps(position)).decode().rstrip("=")


def _decode(cursor: str, kinds: tuple[type, ...]) -> Position:
    refusal = invalid_field("cursor", "There is no such page of the list. Begin at the first page.")
    try:
        values = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError as error:
        raise refusal from error
    if not isinstance(values, list) or tuple(map(type, values)) != kinds:
        raise refusal
    position = tuple(values)
    # Base64 is decoded leniently, so a cursor is ours only if it encodes to the same text.
    if cursor != _encode(position) or any(
        isinstance(value, int) and abs(value) > MAX_INTEGER for value in position
    ):
        raise refusal
    return position


async def stream_csv(
    request: ConsoleRequest, topic: str, columns: Sequence[str], read: ReadChunk[Place]
) -> web.StreamResponse:
    """Reply with `TOPIC-DAY.csv`: a line of `columns`, then all rows that `read` returns.

    `read` runs in the books' thread and gets None for the first chunk. Errors it raises there
    become ordinary error replies, as the response has not begun.
    """

    async def render(after: Place | None) -> tuple[str, Place | None]:
        def render_in_thread(books: Books) -> tuple[str, Place | None]:
            rows, last = read(books, after)
            return write_csv(rows, columns, header=after is None), last

        return await request.run(render_in_thread)

    text, after = await render(None)
    response = _make_response(request, topic)
    with _whole_or_cut(request):
        await response.prepare(request.http)
        while request.http.method != hdrs.METH_HEAD:
            await response.write(text.encode())
            if after is None:
                break
            text, after = await render(after)
        await response.write_eof()
    return response


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
    """Reset the connection unless the whole body was written. A caller who left is not an error.

    To a proxy that speaks HTTP/1.0 the body is not chunked, so a plain close would look like its
    proper end.
    """
    is_whole = False
    try:
        yield
        is_whole = True
    except ConnectionError:
        log.info("%s: the caller left before the download was complete", request.call.request_id)
    finally:
        transport = request.http.transport
        if not is_whole and transport is not None:
            with suppress(OSError):  # the caller may have closed the connection
                socket_ = transport.get_extra_info("socket")
                socket_.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            transport.abort()
