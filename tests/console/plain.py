"""Functions of the console as functions of plain values, for `examples.txt`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_network
from typing import Any, Final

import orjson

from gateway import addresses
from gateway.console import callers, routes
from gateway.console.fields import ConsoleError, Fields, Query

OWN: Final = frozenset({"https://llm.example.com"})
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


def may_change(headers: Mapping[str, str]) -> bool:
    return callers.is_same_site(headers, OWN)


def may_look(headers: Mapping[str, str]) -> bool:
    return callers.is_same_site(headers, OWN, is_change=False)


def is_own_host(headers: Mapping[str, str]) -> bool:
    return callers.is_own_host(headers, OWN)


def read_local(name: object) -> tuple[str, int] | None:
    return routes.read_local(tuple(name) if isinstance(name, list) else name)


def find_address(remote: str, forwarded: list[str]) -> str:
    return addresses.find_address(remote, forwarded, PROXIES)


def is_trusted(peer: str) -> bool:
    return addresses.is_trusted(peer, PROXIES)


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
