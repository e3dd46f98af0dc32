"""Whatever parses the bytes of others has a budget: each such module stands in `parsers.txt`."""

from __future__ import annotations

import asyncio
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import LineTooLong
from aiohttp.http_parser import HttpRequestParser
from aiohttp.web_protocol import RequestHandler

from gateway.api.aiohttp_insides import TINY_CHUNKS, PacedConnection
from gateway.api.bodies import parse_large
from gateway.base.errors import BadRequest, BodyTooLarge
from gateway.dialects.wire import seals
from gateway.dialects.wire.bounds import MAX_ELEMENTS, MAX_ESCAPES
from tests.support.formats import CALLERS
from tests.support.rows import each_row
from tests.test_package import FILES, ROOT

TESTS: Final = Path(__file__).parent
SIGN: Final = re.compile(
    r"^(?!\s*(?:async )?def ).*(?:\b(?:loads(?:_lenient)?|maybe_loads|read_json|\w*b(?:64|32)decode|"
    r"parse_qsl?|unquote|construct_event|FormReader|read_pieces|read_bytes|decompressobj)\(|\.feed\(|csv\.reader|"
    r"http\.query|\.cookies\.get|\(RequestHandler\))",
    re.MULTILINE,
)
_TABLES: Final = (TESTS / "parsers.txt", *sorted(TESTS.glob("extras/*/parsers.txt")))
TABLE: Final = "\n".join(one.read_text("utf-8").partition("\n\n")[2] for one in _TABLES)
WHOSE: Final = re.compile(
    r"^((?:[\w/]+ +)+)(stranger|caller|sender|provider|ours)\b *(?:.*  (\S.*))?$", re.MULTILINE
)


def read_chat(text: str) -> None:
    parse_large(CALLERS["chat"], text.encode())


def read_values(count: int) -> None:
    message = '{"role":"user","content":"a"}'
    read_chat(f'{{"model":"m","messages":[{message}],"a":[{"1," * (count - 15)}1]}}')


def read_many(escape: str) -> Callable[[int], None]:
    body = '{"model":"m","messages":[{"role":"user","content":"%s"}]}'
    return lambda count: read_chat(body % (escape * count))


def open_seal(values: int) -> None:
    """A seventh more of zeros: sixteen bytes are good for one more value."""
    zeros = "[" + "0," * (values + values // 7 - 1) + "0]"
    packed = urlsafe_b64encode(zeros.encode()).decode()
    if not seals.open_seals(f"gw1.0.~{packed}", "gw1.0."):
        raise BadRequest("no state")


def count_chunks(count: int) -> None:
    body = SimpleNamespace(total_bytes=count)
    if PacedConnection.has_tiny_chunks(cast("Any", SimpleNamespace(chunks=count, _body=body))):
        raise BadRequest("tiny")


def read_line(size: int) -> None:
    loop = asyncio.new_event_loop()
    try:
        parser = HttpRequestParser(BaseProtocol(loop), loop, 2**16)
        parser.feed_data(b"GET " + b"/".ljust(size, b"a") + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    finally:
        loop.close()


LINE_BYTES: Final = signature(RequestHandler).parameters["max_line_size"].default
Feed = tuple[int, Callable[[int], None], type[Exception]]
"""A limit, what gives a parser so much, and how it refuses one more."""
FEED: Final[dict[tuple[str, str], Feed]] = {
    ("api/aiohttp_insides", "max_line_size"): (LINE_BYTES, read_line, LineTooLong),
    ("api/aiohttp_insides", "TINY_CHUNKS"): (TINY_CHUNKS, count_chunks, BadRequest),
    ("dialects/wire/fields", "MAX_ELEMENTS"): (MAX_ELEMENTS, read_values, BodyTooLarge),
    ("dialects/wire/fields", "MAX_ESCAPES"): (MAX_ESCAPES, read_many('\\"'), BodyTooLarge),
    ("dialects/wire/seals", "_LEAST_ELEMENTS"): (seals._LEAST_ELEMENTS, open_seal, BadRequest),
    **{
        limit: feed
        for path in sorted(TESTS.glob("extras/*/parsers.py"))
        for limit, feed in import_module(f"tests.extras.{path.parent.name}.parsers").FEED.items()
    },
}
ROWS: Final = [found.groups() for found in WHOSE.finditer(TABLE)]
FIGURE: Final = re.compile(r"(\w+) = ([0-9]+)")


def test_each_module_that_parses_is_named() -> None:
    """A new one needs a row; where callers or strangers send the bytes, with a bound."""
    found = {
        path.relative_to(ROOT).with_suffix("").as_posix()
        for path in FILES
        if SIGN.search(path.read_text("utf-8"))
    }
    assert sorted(found) == sorted(name for names, _, _ in ROWS for name in names.split())
    unbound = [names for names, whose, bounds in ROWS if not bounds and whose[0] in "sc"]
    assert unbound == []


def test_each_figure_is_the_codes() -> None:
    told = {
        (names.strip(), name): int(figure)
        for names, _, bounds in ROWS
        for name, figure in FIGURE.findall(bounds or "")
    }
    assert told == {key: most for key, (most, _, _) in FEED.items()}


@each_row("limit", FEED)
def test_a_parser_takes_its_limit_and_no_more(limit: tuple[str, str]) -> None:
    most, feed, refusal = FEED[limit]
    feed(most)
    with pytest.raises(refusal):
        feed(most + 1)
