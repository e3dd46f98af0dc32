"""What the console's requests share, and what each of them carries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeVar

from aiohttp import web

from gateway.console.desk import Desk
from gateway.console.fields import Fields, Query
from gateway.console.hasher import Hasher
from gateway.console.origin import read_local
from gateway.console.throttle import SignInThrottle, Tries
from gateway.console.vitals import Vitals
from gateway.ledger.book import Actor
from gateway.ledger.books import Books
from gateway.ledger.records import AccountView, SessionView
from gateway.state import Gateway

T = TypeVar("T")

TRIES_SECONDS: Final = 3600
REDEEM_TRIES: Final = 10
PASSWORD_TRIES: Final = 10
"""For the current password, when it is changed."""
MAX_CHANGES: Final = 600

Role = Literal["none", "any", "operator"]


@dataclass(frozen=True, slots=True)
class Console:
    """Lives as long as the application."""

    desk: Desk
    vitals: Vitals = field(default_factory=Vitals)
    throttle: SignInThrottle = field(default_factory=SignInThrottle)
    redeem_tries: Tries = field(default_factory=lambda: Tries(REDEEM_TRIES, TRIES_SECONDS))
    hasher: Hasher = field(default_factory=Hasher)
    password_tries: Tries = field(default_factory=lambda: Tries(PASSWORD_TRIES, TRIES_SECONDS))
    changes: Tries = field(default_factory=lambda: Tries(MAX_CHANGES, TRIES_SECONDS))
    """Of holders: each change leaves rows that are kept for good."""


CONSOLE: Final = web.AppKey("console", Console)


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply before it is bytes."""

    body: Mapping[str, Any] | bytes | None = None
    """None is a 204; bytes are JSON that was answered before."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    session_token: str | None = field(default=None, repr=False)
    """A new session's, for the cookie."""
    ends_session: bool = False
    """The cookie is to be forgotten."""
    kept: Mapping[str, Any] | None = field(default=None, repr=False)
    """What a repeated request may see of a body that has a secret in it."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One console request, let in."""

    request: web.Request
    gateway: Gateway
    console: Console
    session: SessionView | None
    address: str
    """Whom it comes from, behind proxies that are trusted."""
    body: bytes = field(repr=False)

    @property
    def account(self) -> AccountView:
        """Who is signed in. For routes that need a session."""
        assert self.session is not None
        return self.session.account

    @property
    def fields(self) -> Fields:
        """The request's JSON object, to be read once."""
        return Fields(self.body)

    @property
    def query(self) -> Query:
        return Query(self.request.query)

    def segment(self, name: str) -> str:
        """A part of the path, decoded."""
        return self.request.match_info[name]

    async def run(self, function: Callable[[Books], T]) -> T:
        """On the desk's thread, in the name of who is signed in."""
        name = self.session.account.name if self.session else "nobody"
        return await self.console.desk.run(Actor(name, self.address), function)


Handler = Callable[[Visit], Awaitable[Answer | web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """Who may do what: there is no way in but through one of these."""

    method: Literal["GET", "POST", "PATCH", "DELETE"]
    path: str
    role: Role
    handler: Handler


def find_local(request: web.Request) -> tuple[str, int] | None:
    """Host and port at which the connection came in; None where it has none."""
    transport = request.transport
    return read_local(transport and transport.get_extra_info("sockname"))


def on_desk(function: Callable[[Books, Visit], Answer]) -> Handler:
    """A handler that needs nothing but the books: it runs on their thread as a whole."""

    async def handle(visit: Visit) -> Answer:
        return await visit.run(partial(_call, function, visit))

    return handle


def _call(function: Callable[[Books, Visit], Answer], visit: Visit, books: Books) -> Answer:
    return function(books, visit)
