"""Lists in pages: a cursor says where the next one begins, so rows that come in move nothing."""

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

MAX_LIMIT: Final = 200
DEFAULT_LIMIT: Final = 50

MAX_NUMBER: Final = 2**63 - 1
"""The largest that SQLite knows."""

Position = tuple[str | int, ...]
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Page:
    """What is asked for: `limit` rows behind `after`, the position of the last one seen."""

    limit: int
    after: Position | None

    @property
    def wanted(self) -> int:
        """One row more than is shown tells whether there is a next page."""
        return self.limit + 1

    @property
    def after_number(self) -> int | None:
        return None if self.after is None else int(self.after[0])

    @property
    def after_text(self) -> str | None:
        return None if self.after is None else str(self.after[0])


def read_page(query: Query, kinds: tuple[type, ...]) -> Page:
    """`kinds` are the types of a position's members: another list's cursor is refused."""
    limit = query.integer("limit", 1, MAX_LIMIT, DEFAULT_LIMIT)
    cursor = query.text("cursor")
    return Page(limit, None if cursor is None else _decode(cursor, kinds))


@dataclass(frozen=True, slots=True)
class Listing(Generic[Row]):
    """What a list is of: its name in replies, where in it a row stands, how a row is shown."""

    name: str
    locate: Callable[[Row], Position]
    describe: Callable[[Row], Mapping[str, object]]

    def answer(
        self, request: web.Request, page: Page, rows: Sequence[Row], figures: Mapping[str, object]
    ) -> Answer:
        """The figures and the rows, the next cursor, and a Link to the next page."""
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
    return isinstance(value, int) and abs(value) > MAX_NUMBER


def _bad_cursor() -> Exception:
    return invalid_field("cursor", "This page of the list is not there. Begin at the first one.")
