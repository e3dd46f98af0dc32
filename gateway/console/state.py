"""The console's shared state, and the records of one request: route, request, answer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from aiohttp import web

from gateway.api.state import Call, Gateway
from gateway.console.books_thread import BooksThread
from gateway.console.fields import Fields, Query
from gateway.console.origin import read_local
from gateway.console.password_hashing import PasswordHasher
from gateway.console.refusals import not_for_token
from gateway.console.throttle import (
    ADDRESS_SECONDS,
    ADDRESS_TRIES,
    DeviceCookie,
    SignInThrottle,
    Tries,
)
from gateway.ledger.records import AccountView, Actor, AuditReport
from gateway.ledger.signin_records import SessionView, TokenRole, TokenView
from gateway.ledger.sql.books.books import Books
from gateway.tasks import measure_loop_lag
from gateway.times import unix_ms

T = TypeVar("T")

TRIES_SECONDS: Final = 3600
"""The hour in which tries and changes are counted."""
REDEEM_TRIES: Final = 10
"""Wrong top-up codes per account and hour. A code has 80 random bits; people mistype a few."""
PASSWORD_TRIES: Final = 10
"""Wrong current passwords per account and hour, when the password is changed."""
MAX_CHANGES: Final = 600
"""Changes per holder and hour, ten a minute: each leaves rows that are never deleted."""

MAX_TOKEN_CHANGES: Final = 6000
"""Changes per token and hour, a hundred a minute: two thousand sales of account, key and credit."""

Role = Literal["none", "any", "operator"]
Caller = SessionView | TokenView | None
"""The sender of a request: a person, a script, or nobody who is known."""

OPERATORS: Final[frozenset[TokenRole]] = frozenset({"operator"})
SHOPS: Final[frozenset[TokenRole]] = frozenset({"operator", "accounts"})
READERS: Final[frozenset[TokenRole]] = frozenset({"operator", "read"})
EVERY_TOKEN: Final = SHOPS | READERS
NO_TOKEN: Final[frozenset[TokenRole]] = frozenset()
"""The roles of tokens that may call a route."""


MAX_ERRORS: Final = 20
"""The latest failures shown on the page Health: a screen of them."""
SERVER_ERROR: Final = 500
"""The first status that is counted as a failure of ours or of a provider."""
TICK_SECONDS: Final = 0.5
"""How often the event loop's lag is measured. The measuring itself must cost nothing."""
LAG_WINDOW_SECONDS: Final = 60.0
"""The page Health shows the worst lag of this time: long enough to be seen by who looks."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A reply of status 500 or above."""

    at_ms: int
    request_id: str
    status: int
    code: str | None
    provider: str | None


@dataclass(frozen=True, slots=True)
class FinishedAudit:
    """A full audit that this process ran to its end."""

    at_ms: int
    report: AuditReport


class ProcessState:
    """Counters of the process since its start.

    It is created after the ledger was opened, which audits the entries since the last checkpoint.
    """

    def __init__(self, tick_seconds: float = TICK_SECONDS) -> None:
        self.started_ms = unix_ms()
        self._started = time.monotonic()
        self._tick_seconds = tick_seconds
        self._failures: deque[Failure] = deque(maxlen=MAX_ERRORS)
        self._lags: deque[tuple[float, float]] = deque()
        self.last_audit: FinishedAudit | None = None
        self.is_auditing = False

    @property
    def uptime_seconds(self) -> int:
        return int(time.monotonic() - self._started)

    @property
    def failures(self) -> list[Failure]:
        """The latest replies of status 500 and above, the newest first."""
        return list(reversed(self._failures))

    @property
    def loop_lag_ms(self) -> float | None:
        """The longest delay of the event loop in the last minute; None before the first sample."""
        worst = max((lag for _, lag in self._lags), default=None)
        return None if worst is None else round(worst * 1000, 1)

    def note_call(self, call: Call, status: int) -> None:
        """Record a request that ended, if it failed with 500 or above."""
        if status >= SERVER_ERROR:
            self._failures.append(
                Failure(unix_ms(), call.request_id, status, call.error_code, call.provider or None)
            )

    async def measure_loop_lag(self) -> None:
        """Measure how late the event loop is, until cancelled."""
        await measure_loop_lag(self._note_lag, self._tick_seconds)

    def _note_lag(self, seconds: float) -> None:
        now = time.monotonic()
        self._lags.append((now, seconds))
        while self._lags[0][0] < now - LAG_WINDOW_SECONDS:
            self._lags.popleft()


@dataclass(frozen=True, slots=True)
class ConsoleState:
    """State that all console requests share, for as long as the application runs."""

    books_thread: BooksThread
    process: ProcessState = field(default_factory=ProcessState)
    throttle: SignInThrottle = field(default_factory=SignInThrottle)
    redeem_tries: Tries = field(default_factory=lambda: Tries(REDEEM_TRIES, TRIES_SECONDS))
    hasher: PasswordHasher = field(default_factory=PasswordHasher)
    password_tries: Tries = field(default_factory=lambda: Tries(PASSWORD_TRIES, TRIES_SECONDS))
    changes: Tries = field(default_factory=lambda: Tries(MAX_CHANGES, TRIES_SECONDS))
    """Changes by holders, and sessions that a proxy's word opens for anybody. They are limited as each
    leaves rows that are never deleted."""
    token_changes: Tries = field(default_factory=lambda: Tries(MAX_TOKEN_CHANGES, TRIES_SECONDS))
    token_tries: Tries = field(default_factory=lambda: Tries(ADDRESS_TRIES, ADDRESS_SECONDS))
    """Wrong tokens, by address."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A JSON reply that is not yet serialised."""

    body: Mapping[str, Any] | bytes | None = None
    """None means 204; bytes are the JSON of an earlier reply that is repeated."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    session_token: str | None = field(default=None, repr=False)
    """The token of a new session, to be set as the cookie."""
    device: DeviceCookie | None = None
    """The cookie of a browser that has proven who signs in with it."""
    ends_session: bool = False
    """Whether to delete the cookie."""
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
        return self.call.console["address"]

    @property
    def session(self) -> SessionView | None:
        return self.caller if isinstance(self.caller, SessionView) else None

    @property
    def token(self) -> TokenView | None:
        return self.caller if isinstance(self.caller, TokenView) else None

    @property
    def account(self) -> AccountView:
        """The account that is signed in; only for routes that are closed to tokens."""
        assert self.session is not None
        return self.session.account

    @property
    def fields(self) -> Fields:
        """A reader of the request's JSON object."""
        return Fields(self.body)

    @property
    def query(self) -> Query:
        return Query(self.http.query)

    def segment(self, name: str) -> str:
        """Return a variable part of the path, decoded."""
        return self.http.match_info[name]

    def refuse_operators(self, account: AccountView) -> None:
        """Raise ConsoleError if a token that serves holders would change an operator's account."""
        if self.token is not None and self.token.terms.role not in OPERATORS and account.operator:
            raise not_for_token(
                f"This token has the role {self.token.terms.role}, which may not do this to the"
                " account of an operator."
            )

    async def run(self, function: Callable[[Books], T]) -> T:
        """Run `function` in the books' thread, as the account that is signed in or the token."""
        actor = Actor(self._actor_name(), self.address)
        return await self.console.books_thread.run(actor, function)

    def _actor_name(self) -> str:
        match self.caller:
            case TokenView() as token:
                return token.actor
            case SessionView() as session:
                return session.account.name
            case None:
                return "nobody"


Handler = Callable[[ConsoleRequest], Awaitable[Answer | web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """A method and path, the role it needs, its handler, and the tokens that may call it."""

    method: Literal["GET", "POST", "PATCH", "DELETE"]
    path: str
    role: Role
    handler: Handler
    tokens: frozenset[TokenRole] = NO_TOKEN


def find_local(request: web.Request) -> tuple[str, int] | None:
    """Return host and port at which the connection came in; None for a UNIX socket."""
    transport = request.transport
    return read_local(transport and transport.get_extra_info("sockname"))


def in_books_thread(function: Callable[[Books, ConsoleRequest], Answer]) -> Handler:
    """Make a handler of a function that needs only the books and runs in their thread."""

    async def handle(request: ConsoleRequest) -> Answer:
        return await request.run(lambda books: function(books, request))

    return handle
