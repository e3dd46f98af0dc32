"""The records of one request (route, request, answer), and the decorators that make routes.

A handler stands right under its route. Most handlers need only the books and run in their thread:

    @route("GET", "/codes", "operator", EVERY_TOKEN)
    def list_codes(books: Books, request: ConsoleRequest) -> Answer: ...

Idempotent routes, among them all that move money, need an Idempotency-Key: the first reply is
stored in the same transaction as its effect, and a request with the same key and body gets it again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeVar

import orjson
from aiohttp import web

from gateway.api.front import Call
from gateway.api.state import Gateway
from gateway.base.addresses import parse_address
from gateway.extras.console.additions import Script, ScriptRole
from gateway.extras.console.errors import (
    ConsoleError,
    invalid_field,
    not_for_token,
    signed_in_by_proxy,
)
from gateway.extras.console.fields import Fields, Query, read_id
from gateway.extras.console.replays import OtherRequest, ReplayBook, StoredReply, read_repeatable
from gateway.extras.console.state import ConsoleState
from gateway.extras.signins import signin
from gateway.extras.signins.records import SessionView
from gateway.extras.signins.throttle import Cookie
from gateway.ledger import records
from gateway.ledger.sql.books import Books

T = TypeVar("T")

API_PREFIX: Final = "/console/api"

Method = Literal["GET", "POST", "PATCH", "DELETE"]
Role = Literal["none", "any", "operator"]
Caller = SessionView | Script | None
"""The sender of a request: a person, a script, or None for nobody known."""

OPERATORS: Final[frozenset[ScriptRole]] = frozenset({"operator"})
SHOPS: Final[frozenset[ScriptRole]] = frozenset({"operator", "accounts"})
READERS: Final[frozenset[ScriptRole]] = frozenset({"operator", "read"})
EVERY_TOKEN: Final = SHOPS | READERS
NO_TOKEN: Final[frozenset[ScriptRole]] = frozenset()
"""The roles of tokens that may call a route."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A JSON reply that is not yet serialised."""

    body: Mapping[str, Any] | bytes | None = None
    """None means 204; bytes are the JSON of an earlier reply that is repeated."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Sequence[Cookie] = ()
    """The cookie of a session, and the cookie of a browser that has signed in before."""
    kept: Mapping[str, Any] | None = field(default=None, repr=False)
    """The body to store for repeated requests, if `body` holds a secret that must not be stored."""


@dataclass(frozen=True, slots=True)
class ConsoleRequest:
    """A console request that passed the checks of `dispatch`."""

    http: web.Request
    """The underlying aiohttp request."""
    call: Call
    console: ConsoleState
    caller: Caller
    body: bytes = field(repr=False)

    @property
    def gateway(self) -> Gateway:
        return self.call.gateway

    @property
    def address(self) -> str:
        """The client's address; trusted proxies may name it in X-Forwarded-For."""
        return self.call.visit["address"]

    @property
    def session(self) -> SessionView | None:
        return self.caller if isinstance(self.caller, SessionView) else None

    @property
    def own_session(self) -> SessionView:
        """The session; only for routes that need one and are closed to tokens."""
        assert self.session is not None
        return self.session

    @property
    def script(self) -> Script | None:
        return self.caller if isinstance(self.caller, Script) else None

    @property
    def account(self) -> records.AccountView:
        """The account that is signed in; only for routes that are closed to tokens."""
        return self.own_session.account

    @property
    def fields(self) -> Fields:
        """A reader of the request's JSON object."""
        return Fields(self.body)

    @property
    def query(self) -> Query:
        return Query(self.http.query)

    def segment(self, name: str = "id") -> str:
        """Return a variable part of the path, decoded."""
        return self.http.match_info[name]

    def find_account(self, books: Books) -> records.AccountView:
        """Return the account that the path names, or else the one signed in. Raises NotFound."""
        if "id" not in self.http.match_info:
            return self.account
        account_id = read_id(self.segment(), "account")
        return books.accounts.read(books.read_account_name(account_id))

    def find_named(self, books: Books) -> int | None:
        """Return the account that the query names; None if it names none. Raises ConsoleError."""
        name = self.query.text("account")
        try:
            return None if name is None else books.accounts.find_id(name)
        except records.NotFound as error:
            raise invalid_field("account", f"There is no account '{name}'.") from error

    def find_base_url(self) -> str:
        """Return `public_url` or, if it is unset, the address of this request. Raises Refused."""
        return signin.find_base_url(self.gateway.config.server, find_local(self.http))

    def refuse_proxied(self) -> None:
        """Raise ConsoleError for a person whom a trusted proxy signs in and out."""
        if self.own_session.by_proxy:
            raise signed_in_by_proxy()

    def refuse_operators(self, account: records.AccountView) -> None:
        """Raise ConsoleError if a token that serves holders would change an operator's account."""
        if self.script is not None and self.script.role not in OPERATORS and account.operator:
            raise not_for_token(
                f"This token has the role {self.script.role}, which may not do this to the"
                " account of an operator."
            )

    async def run(self, function: Callable[[Books], T]) -> T:
        """Run `function` in the books' thread, as the person who is signed in or the token."""
        if self.script is not None:
            name = self.script.actor
        else:
            name = "nobody" if self.session is None else self.session.signin.name
        return await self.console.books_thread.run(records.Actor(name, self.address), function)


Reply = Answer | web.StreamResponse
Handler = Callable[[ConsoleRequest], Awaitable[Reply]]
BooksHandler = Callable[[Books, ConsoleRequest], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """A method and path, the role it needs, its handler, and the tokens that may call it."""

    method: Method
    path: str
    role: Role
    handler: Handler
    tokens: frozenset[ScriptRole] = NO_TOKEN
    logged: bool = True


ROUTES: Final[list[Route]] = []
"""The routes of the modules that were imported: `dispatch` imports all of them."""


def async_route(
    method: Method,
    path: str,
    role: Role,
    tokens: frozenset[ScriptRole] = NO_TOKEN,
    *,
    logged: bool = True,
) -> Callable[[Handler], Handler]:
    """Make a coroutine the handler of a route; with the role `none` it needs no session."""

    def add(handler: Handler) -> Handler:
        ROUTES.append(Route(method, API_PREFIX + path, role, handler, tokens, logged))
        return handler

    return add


def route(
    method: Method,
    path: str,
    role: Role,
    tokens: frozenset[ScriptRole] = NO_TOKEN,
    *,
    idempotent: bool = False,
    shown_once: str | None = None,
) -> Callable[[BooksHandler], BooksHandler]:
    """Make a function that runs in the books' thread the handler of a route.

    If the reply shows a secret, it is not sent again: a repeated request gets an error with the message
    `shown_once`, whose variable parts are in `Answer.kept`.
    """

    def add(function: BooksHandler) -> BooksHandler:
        async def run(request: ConsoleRequest) -> Answer:
            return await request.run(lambda books: function(books, request))

        handler = partial(run_once, function, shown_once) if idempotent else run
        async_route(method, path, role, tokens)(handler)
        return function

    return add


def is_idempotent(one: Route) -> bool:
    """Return whether a route takes an Idempotency-Key."""
    return isinstance(one.handler, partial) and one.handler.func is run_once


async def run_once(
    function: BooksHandler, shown_once: str | None, request: ConsoleRequest
) -> Answer:
    """Run `function` in the books' thread at most once per caller, path and Idempotency-Key."""
    repeatable = read_repeatable(request)
    fresh: list[Answer] = []  # what `do` answered, if it ran; the books have what may be repeated

    def do(books: Books) -> StoredReply:
        answer = function(books, request)
        fresh.append(answer)
        kept = answer.body if answer.kept is None else answer.kept
        return StoredReply(answer.status, orjson.dumps(kept))

    try:
        kept, is_repeated = await request.run(
            lambda books: ReplayBook(books).run_once(repeatable, partial(do, books))
        )
    except OtherRequest as error:
        raise ConsoleError(
            409,
            "idempotency_conflict",
            "This was sent before with other values, under the same Idempotency-Key. In the console, reload"
            " the page and fill in the form again; in a script, take another Idempotency-Key.",
        ) from error
    if not is_repeated:
        return fresh[0]
    if shown_once is not None:
        more = orjson.loads(kept.reply)
        raise ConsoleError(409, "already_done", shown_once.format(**more), more=more)
    return Answer(kept.reply, kept.status, headers={"Idempotent-Replay": "true"})


def find_local(request: web.Request) -> tuple[str, int] | None:
    """Return host and port at which the connection came in; None for a UNIX socket."""
    transport = request.transport
    return read_local(transport and transport.get_extra_info("sockname"))


def read_local(name: object) -> tuple[str, int] | None:
    """Return host and port of a socket's own address; None for UNIX sockets."""
    if not isinstance(name, tuple):
        return None
    address = parse_address(name[0])
    return None if address is None else (str(address), name[1])
