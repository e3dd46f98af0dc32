"""Pages: a cursor leads to the next page, and only a cursor of this list is accepted."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import orjson
import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.console.fields import Query
from gateway.console.lists import Page, answer_page, read_page
from gateway.console.refusals import ConsoleError
from gateway.console.routes import Answer, ConsoleRequest
from tests.support.rows import each_row

NAMES = ("ä", "b,c", 'd"e', "f g", "h")


def encode(value: object) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(value)).decode().rstrip("=")


def answer(page: Page, rows: list[str], query: Mapping[str, str]) -> Answer:
    http = make_mocked_request("GET", f"/console/api/things?{urlencode(query)}")
    return answer_page(
        cast("ConsoleRequest", SimpleNamespace(http=http)),
        page,
        "things",
        rows,
        locate=lambda row: (row, len(row)),
        describe=lambda row: {"name": row},
        figures={"count": 5},
    )


def read(answer: Answer) -> dict[str, Any]:
    assert isinstance(answer.body, Mapping)
    return dict(answer.body)


@each_row("limit", [1, 2, 3, 4, 5, 6, 200])
def test_cursors_and_links_lead_through_all_rows(limit: int) -> None:
    query = {"limit": str(limit), "search": "a&b=c ü"}
    seen: list[str] = []
    while True:
        page = read_page(Query(query), (str, int))
        first = 0 if page.after is None else NAMES.index(str(page.after[0])) + 1
        found = answer(page, list(NAMES[first : first + page.wanted]), query)
        body = read(found)
        seen += [row["name"] for row in body["things"]]
        assert len(body["things"]) <= limit
        assert body["count"] == 5
        if body["next_cursor"] is None:
            assert "Link" not in found.headers
            break
        link = found.headers["Link"]
        assert link.startswith("<")
        assert link.endswith('>; rel="next"')
        assert link.isascii()
        parts = urlsplit(link[1:].partition(">")[0])
        assert parts.path == "/console/api/things"
        assert parse_qs(parts.query) == {
            "limit": [str(limit)],
            "search": ["a&b=c ü"],
            "cursor": [body["next_cursor"]],
        }
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    assert seen == list(NAMES)


def test_an_empty_list_is_one_page() -> None:
    found = answer(Page(50, None), [], {})
    assert read(found) == {"count": 5, "things": [], "next_cursor": None}
    assert found.headers == {}


def test_a_page_is_50_rows_unless_said_otherwise() -> None:
    assert read_page(Query({}), (int,)) == Page(50, None)
    assert read_page(Query({"limit": "200", "cursor": ""}), (int,)) == Page(200, None)
    for limit in ("0", "201", "many"):
        with pytest.raises(ConsoleError) as caught:
            read_page(Query({"limit": limit}), (int,))
        assert (caught.value.code, caught.value.field) == ("invalid_field", "limit")


@each_row(
    "cursor",
    [
        "x",
        "!!!!",
        "ü",
        "MTIz\x00",
        "=",
        encode({}),
        encode("x"),
        encode([]),
        encode(["x"]),
        encode([1, 2]),
        encode([1.0]),
        encode([True]),
        encode([None]),
        encode([[1]]),
        encode([2**63]),
        encode([2**64 - 1]),
        encode([-(2**63)]),
        encode([1])[:-1],
        encode([1]) + "=",
        encode([1]) + "!",
        base64.urlsafe_b64encode(b"[1 ]").decode(),
        base64.urlsafe_b64encode(b"[" * 60_000).decode(),
    ],
)
def test_another_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(ConsoleError) as caught:
        read_page(Query({"cursor": cursor}), (int,))
    error = caught.value
    assert (error.status, error.code, error.field) == (400, "invalid_field", "cursor")


@each_row("position", [(0,), (-1,), (2**63 - 1,), (17,)])
def test_own_cursors_are_taken(position: tuple[int]) -> None:
    assert read_page(Query({"cursor": encode(position)}), (int,)).after == position
