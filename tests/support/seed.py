"""Write accounts and keys for the test gateways before they start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gateway.admin import keys
from gateway.ledger.budget_records import Allowance
from gateway.ledger.key_records import KeyTerms, Terms
from gateway.ledger.opening import open_books
from gateway.ledger.records import Location
from gateway.ledger.sql.books import Books

NANO: Final = 10**9
PICKY_MODEL: Final = "no-usage/5"
"""The only model that the key of `picky` may use."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody with an account and a key."""

    account: str
    key: str = field(repr=False)
    key_id: str


@dataclass(frozen=True, slots=True)
class Seed:
    """An account with a key; None means the configuration's default."""

    name: str
    credit_nano: int = 100 * NANO
    suspended: bool = False
    models: tuple[str, ...] | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None
    cap_nano: int | None = None
    expires_in_ms: int | None = None
    revoked: bool = False
    budget: Allowance | None = None
    account: Terms = Terms()  # noqa: RUF009 - it is frozen
    """The account's own terms; the others are the key's."""


SPARES: Final = 60
SEEDS: Final = (
    Seed("rich", 10**6 * NANO),
    Seed("tycoon", 10**8 * NANO),
    *(Seed(f"spare-{number}") for number in range(SPARES)),
    Seed("empty", 0),
    Seed("thin", NANO),
    Seed("suspended", suspended=True),
    Seed("suspended-empty", 0, suspended=True),
    Seed("picky", models=(PICKY_MODEL,)),
    Seed("three-a-minute", requests_per_minute=3),
    Seed("one-a-minute", requests_per_minute=1),
    Seed("few-tokens", tokens_per_minute=50),
    Seed("one-at-a-time", concurrency=1),
    Seed("two-at-a-time", account=Terms(("plain/0", "plain/1"), concurrency=2)),
    Seed("capped", cap_nano=1000),
    Seed("revoked", revoked=True),
    Seed("expired", expires_in_ms=200),
)


def seed(path: Location, seeds: Iterable[Seed] = SEEDS) -> dict[str, Caller]:
    """Write the accounts and return the callers by account name."""
    with open_books(path, create=True) as books:
        return {one.name: _add(books, one) for one in seeds}


def _add(books: Books, one: Seed) -> Caller:
    books.accounts.create(one.name, credit_nano=one.credit_nano, terms=one.account)
    new = keys.add_key(
        books,
        one.name,
        KeyTerms(
            models=one.models,
            requests_per_minute=one.requests_per_minute,
            tokens_per_minute=one.tokens_per_minute,
            concurrency=one.concurrency,
            cap_nano=one.cap_nano,
            expires_ms=None if one.expires_in_ms is None else books.clock() + one.expires_in_ms,
        ),
        own=one.budget,
    )
    if one.suspended:
        books.accounts.suspend(one.name)
    if one.revoked:
        books.keys.revoke(new.key.id)
    return Caller(one.name, new.secret, new.key.id)
