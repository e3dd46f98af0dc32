"""Functions of the console as functions of plain values, for `examples.txt`."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any, Final, cast
from urllib.parse import urlencode

import orjson
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from gateway.base import addresses
from gateway.extras.console import callers, routes
from gateway.extras.console.errors import ConsoleError
from gateway.extras.console.fields import Fields, Query
from gateway.extras.console.lists import Page, read_page
from gateway.extras.console.routes import ConsoleRequest

PROXIES: Final = (ip_network("10.0.0.0/8"), ip_network("::1"))
READERS: Final[dict[str, Callable[[Fields], Any]]] = {
    "text": lambda body: body.text("a"),
    "boolean": lambda body: body.boolean("a"),
    "integer": lambda body: body.integer("a", 0, 10),
    "amount": lambda body: body.amount_nano("a"),
    "moment": lambda body: body.moment_ms("a"),
    "texts": lambda body: body.texts("a"),
    "needed text": lambda body: body.need_text("a"),
    "needed integer": lambda body: body.need_integer("a", 0, 1),
    "needed amount": lambda body: body.need_amount_nano("a"),
}
QUERIES: Final[dict[str, Callable[[Query], Any]]] = {
    "integer": lambda query: query.integer("a", 1, 200, 50),
    "large integer": lambda query: query.integer("a", 0, 10**20, 0),
    "text": lambda query: query.text("a"),
    "choice": lambda query: query.choice("a", ("x", "y"), "x"),
    "optional choice": lambda query: query.optional_choice("a", ("x", "y")),
    "day": lambda query: query.day("a"),
    "days": lambda query: query.days(),
}


def read_local(name: object) -> tuple[str, int] | None:
    return routes.read_local(tuple(name) if isinstance(name, list) else name)


def find_address(remote: str, x_forwarded_for: list[str], forwarded: Sequence[str] = ()) -> str:
    headers = CIMultiDict((addresses.FORWARDED_FOR, one) for one in x_forwarded_for)
    headers.extend((addresses.FORWARDED, one) for one in forwarded)
    return addresses.find_address(remote, headers, PROXIES)


def is_trusted(peer: str) -> bool:
    return callers.is_trusted(peer, PROXIES)


def _tell(error: ConsoleError) -> str:
    assert error.message[0].isupper() or error.message[0] == "'"
    assert error.message.endswith((".", "?"))
    return f"{error.status} {error.code} {error.field}"


def read_field(kind: str, sent: object) -> object:
    return read_body(kind, orjson.dumps({"a": sent}, default=str).decode())


def read_body(kind: str, body: str) -> object:
    """Read the field `a` of a body, and no other."""
    try:
        fields = Fields(body.encode(errors="surrogateescape"))
        value = READERS[kind](fields)
        fields.done()
    except ConsoleError as error:
        return _tell(error)
    return value


def read_query(kind: str, values: dict[str, str]) -> object:
    try:
        return QUERIES[kind](Query(values))
    except ConsoleError as error:
        return _tell(error)


def ask_page(query: Mapping[str, str], *kinds: type) -> Page:
    http = make_mocked_request("GET", f"/console/api/things?{urlencode(query)}")
    request = cast("ConsoleRequest", SimpleNamespace(http=http, query=Query(http.query)))
    return read_page(request, *kinds)


def read_limit(query: dict[str, str]) -> int:
    return ask_page(query, int).limit


def read_cursor(sent: str) -> object:
    """Read the cursor of a list, which is the position of its last row."""
    try:
        return ask_page({"cursor": sent}, int).after
    except ConsoleError as error:
        return _tell(error)


def read_position(position: object, more: str = "") -> object:
    encoded = urlsafe_b64encode(orjson.dumps(position)).decode().rstrip("=")
    return read_cursor(f"{encoded}{more}")
