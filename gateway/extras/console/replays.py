"""Replies to idempotent requests: the first reply is stored, and sent again for a repeated request.

A request is repeated if it has the same caller, path, Idempotency-Key and body: see `routes.run_once`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.extras.console.errors import ConsoleError
from gateway.extras.signins.records import PERSON_MARK, SignIn
from gateway.ledger.checks import MAX_IDEMPOTENCY_KEY_CHARS
from gateway.ledger.records import Conflict
from gateway.ledger.sql.database import Part, read_script

if TYPE_CHECKING:
    from gateway.extras.console.routes import ConsoleRequest

_SQL: Final = read_script(__file__)
IDEMPOTENCY_KEY: Final = "Idempotency-Key"


class OtherRequest(Conflict):
    """The idempotency key was used for another request."""


@dataclass(frozen=True, slots=True)
class RepeatableRequest:
    """The identity of a request that may be repeated."""

    caller: str
    """An account's number, with the person's name behind it if there is one, or a token's name in events."""
    route: str
    idempotency_key: str
    request: bytes
    """SHA-256 of the request's body."""


@dataclass(frozen=True, slots=True)
class StoredReply:
    """The stored first reply to a request."""

    status: int
    reply: bytes


def read_repeatable(request: ConsoleRequest) -> RepeatableRequest:
    """Return the identity of a request. Raises ConsoleError without a valid Idempotency-Key."""
    key = request.http.headers.get(IDEMPOTENCY_KEY, "")
    if not key:
        raise ConsoleError(
            400,
            "idempotency_key_missing",
            f"Send the header {IDEMPOTENCY_KEY} with a value of your own, so that a repeated request"
            " does not move money again.",
        )
    if len(key) > MAX_IDEMPOTENCY_KEY_CHARS or not (key.isascii() and key.isprintable()):
        raise ConsoleError(
            400,
            "invalid_field",
            f"The header {IDEMPOTENCY_KEY} must be printable ASCII of at most"
            f" {MAX_IDEMPOTENCY_KEY_CHARS} characters.",
        )
    # Two callers may choose the same key, so it counts for its caller and path alone.
    caller = request.script.actor if request.script else _name_caller(request.own_session.signin)
    return RepeatableRequest(caller, request.http.path, key, hashlib.sha256(request.body).digest())


def _name_caller(own: SignIn) -> str:
    """Return the account's number, and behind it the person's name if there is one."""
    return f"{own.account_id}{PERSON_MARK}{own.person}" if own.person else str(own.account_id)


class ReplayBook(Part):
    def run_once(
        self, repeatable: RepeatableRequest, do: Callable[[], StoredReply]
    ) -> tuple[StoredReply, bool]:
        """Call `do` and return its reply, or return the stored one; return also whether it was stored.

        `do` runs in the transaction that keeps its reply: both are committed, or neither.
        Raises OtherRequest if the idempotency key was used before with another body.
        """
        where = (repeatable.caller, repeatable.route, repeatable.idempotency_key)
        with self._database.changing():
            row = self._database.read_one(_SQL["find reply"], where)
            if row is not None:
                request, status, reply = row
                if request != repeatable.request:
                    raise OtherRequest("this Idempotency-Key was used before, for another request")
                return StoredReply(status, reply), True
            # Inside this transaction: a crash leaves neither an effect without its reply, nor the reverse.
            kept = do()
            values = (repeatable.request, kept.status, kept.reply, self._database.clock())
            self._database.change(_SQL["keep reply"], (*where, *values))
            return kept, False
