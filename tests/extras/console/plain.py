"""Functions of the console as functions of plain values, for `examples.txt`."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from itertools import count, groupby
from types import SimpleNamespace
from typing import Any, Final, cast
from urllib.parse import urlencode

import orjson
from aiohttp.test_utils import make_mocked_request

from gateway import addresses
from gateway.config.records import Server
from gateway.extras.console import callers, routes, signin
from gateway.extras.console.fields import ConsoleError, Fields, Query
from gateway.extras.console.lists import Page, read_page
from gateway.extras.console.routes import ConsoleRequest
from gateway.extras.console.throttle import SignInThrottle, Tries

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


def _make_server(settings: Mapping[str, Any]) -> Server:
    defaults = {"host": "0.0.0.0", "port": 8080, "public_url": None}
    return cast("Server", SimpleNamespace(**{**defaults, **settings}))


def find_own_origins(settings: Mapping[str, Any], local: list[Any] | None) -> list[str]:
    server = _make_server(settings)
    return sorted(callers.find_own_origins(server, routes.read_local(local and tuple(local))))


def find_base_url(settings: Mapping[str, Any], local: list[Any] | None) -> str:
    return signin.find_base_url(_make_server(settings), routes.read_local(local and tuple(local)))


def read_session_token(settings: Mapping[str, Any], cookies: str) -> str | None:
    request = make_mocked_request("GET", "/", headers={"Cookie": cookies})
    return callers.read_session_token(request, _make_server(settings))


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


def ask_page(query: Mapping[str, str], *kinds: type) -> Page:
    http = make_mocked_request("GET", f"/console/api/things?{urlencode(query)}")
    request = cast("ConsoleRequest", SimpleNamespace(http=http, query=Query(http.query)))
    return read_page(request, *kinds)


def read_cursor(sent: str) -> object:
    """Read the cursor of a list, which is the position of its last row."""
    try:
        return ask_page({"cursor": sent}, int).after
    except ConsoleError as error:
        return _tell(error)


def read_position(position: object, more: str = "") -> object:
    encoded = urlsafe_b64encode(orjson.dumps(position)).decode().rstrip("=")
    return read_cursor(f"{encoded}{more}")


TRY: Final = re.compile(r"([=/!?~-]?)([^@#*]*)(?:@([^#*]*))?(?:#([^*]))?(?:\*(\d+))?")


def _play(steps: str, now: list[float], acts: Mapping[str, Callable[..., object]]) -> str:
    """Do `ACT NAME @ADDRESS #DEVICE *TIMES`, or wait `+SECONDS`; tell what each step returned.

    Without an address each try is from another one. `N` is the number of the try.
    """
    told, others = [], count()
    for step in steps.split():
        if step.startswith("+"):
            now[0] += float(step)
            continue
        found = TRY.fullmatch(step)
        assert found is not None, step
        act, name, address, device, times = found.groups()
        results = []
        for number in range(int(times or 1)):
            place = f"10.0.{next(others)}.1" if address is None else address
            where = place.replace("N", f"{number:x}"), device and device.encode() * 16
            results.append(acts[act](name.replace("N", str(number)), *where))
        runs = [(value, len([*some])) for value, some in groupby(results) if value is not None]
        told += [",".join(f"{one}*{n}" if n > 1 else str(one) for one, n in runs)] * bool(runs)
    return " ".join(told)


def sign_in(steps: str) -> str:
    """Return the seconds to wait before each try; `!`, `/`, `~` are right, lack a code, are let in.

    `=` is a right try at once. `?` and `-` ask whether to note a failure of a kind, of a name.
    """
    now = [1000.0]
    throttle = SignInThrottle(lambda: now[0])

    def take_right(*who: Any) -> int:
        wait = throttle.take(*who)
        throttle.succeed(*who)
        return wait

    acts: dict[str, Callable[..., object]] = {
        "": throttle.take,
        "=": take_right,
        "!": throttle.succeed,
        "/": throttle.give_back,
        "~": lambda name, *_: throttle.clear(name),
        "?": lambda kind, address, _: throttle.take_note(kind, address),
        "-": lambda name, *_: throttle.take_name_note(name),
    }
    return _play(steps, now, acts)


def take_tries(most: int, seconds: int, steps: str) -> str:
    """Return the seconds to wait before each of the tries; `/` gives one back."""
    now = [1000.0]
    tries = Tries(most, seconds, clock=lambda: now[0])
    acts = {"": lambda key, *_: tries.take(key), "/": lambda key, *_: tries.give_back(key)}
    return _play(steps, now, acts)


def compute_code(seconds: int) -> str:
    """Compute a code of Appendix B of RFC 6238, which has the last six digits of its eight."""
    return signin.compute_code(b"12345678901234567890", seconds // 30)
