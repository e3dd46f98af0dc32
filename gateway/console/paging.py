"""Lists in pages. A cursor names the last row shown, so new rows do not shift the next page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import quote, urlencode

import orjson
from aiohttp import web

from gateway.console.fields import Query
from gateway.console.refusals import invalid_field
from gateway.console.state import Answer
from gateway.ledger.records import MAX_INTEGER

MAX_LIMIT: Final = 200
"""Rows of a page: reading so many takes the books' thread a few milliseconds."""
DEFAULT_LIMIT: Final = 50
"""Rows of a page where none are asked for: two screens."""

Position = tuple[str | int, ...]
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Page:
    """A requested page: `limit` rows after the position `after`; None means the first page."""

    limit: int
    after: Position | None

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


def read_page(query: Query, kinds: tuple[type, ...]) -> Page:
    """Read `limit` and `cursor`. Raises ConsoleError.

    `kinds` are the types of the members of a position; a cursor of another list is refused by them.
    """
    limit = query.integer("limit", 1, MAX_LIMIT, DEFAULT_LIMIT)
    cursor = query.text("cursor")
    return Page(limit, None if cursor is None else _decode(cursor, kinds))


@dataclass(frozen=True, slots=True)
class Listing(Generic[Row]):
    """A list's JSON key, the cursor position of a row, and the JSON of a row."""

    name: str
    locate: Callable[[Row], Position]
    describe: Callable[[Row], Mapping[str, object]]

    def answer(
        self, request: web.Request, page: Page, rows: Sequence[Row], figures: Mapping[str, object]
    ) -> Answer:
        """Return the reply: `figures`, the rows, the next cursor and a Link to the next page."""
        shown = rows[: page.limit]
        cursor = _encode(self.locate(shown[-1])) if len(rows) > page.limit else None
        headers = {}
        if cursor is not None:
            query_string = urlencode({**request.query, "cursor": cursor})
            headers["Link"] = f'<{quote(request.path)}?{query_string}>; rel="next"'
        described = [self.describe(row) for row in shown]
        body = {**figures, self.name: described, "next_cursor": cursor}
        return Answer(body, headers=headers)


def _encode(position: Position) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(position)).decode().rstrip("=")


def _decode(cursor: str, kinds: tuple[type, ...]) -> Position:
    try:
        values = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError as error:
        raise _bad_cursor() from error
    if not isinstance(values, list) or tuple(map(type, values)) != kinds:
        raise _bad_cursor()
    position = tuple(values)
    if cursor != _encode(position) or any(map(_is_too_large, position)):
        raise _bad_cursor()
    return position


def _is_too_large(value: str | int) -> bool:
    return isinstance(value, int) and abs(value) > MAX_INTEGER


def _bad_cursor() -> Exception:
    return invalid_field("cursor", "There is no such page of the list. Begin at the first page.")
