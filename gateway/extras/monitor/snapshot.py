"""A snapshot of what happens now, as the ledger has it: it is the same with one gateway and with several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.admin.fields import Fields
from gateway.base.ids import find_first_id
from gateway.base.money import Tokens
from gateway.base.times import HOUR_MS, HOURS_PER_DAY, MINUTE_MS
from gateway.config.records import Config
from gateway.extras.operations import health
from gateway.extras.operations.health import UpstreamState
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Part, Value, join_parts, read_script

LATELY_MS: Final = 10 * MINUTE_MS
"""How far back calls are looked for: earlier ones count neither in rates nor among the slowest."""
MOST: Final = 100
"""The most rows of a list: more than a screen has lines."""
SLOWEST: Final = 5
"""The most calls that are listed as the slowest: people look into a few."""
_SQL: Final = read_script(__file__)
_ALARMING: Final = ("failing", "resting", "probing")
"""States of providers that come first."""


@dataclass(frozen=True, slots=True)
class Call:
    request_id: str
    account: str
    model: str
    provider: str
    started_ms: int
    first_byte_ms: int | None = None
    total_ms: int | None = None
    """None while it is in flight."""


@dataclass(frozen=True, slots=True)
class Balance:
    account: str
    balance_nano: int
    charged_nano: int
    """In the last 24 hours of the clock."""


@dataclass(frozen=True, slots=True)
class ProviderLine:
    provider: str
    in_flight: int
    state: UpstreamState


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    at_ms: int
    currency: str
    in_flight: int
    calls: int
    """Calls that ended in the last minute; the next two fields are of the same calls."""
    tokens: Tokens
    charged_nano: int
    providers: Sequence[ProviderLine]
    longest: Sequence[Call]
    """In flight, the oldest first."""
    slowest: Sequence[Call]
    """Complete calls, the slowest first."""
    balances: Sequence[Balance]
    """Accounts with calls in the last 24 hours, the lowest balance first."""


_CALL: Final = Fields[Call](
    "request_id", "account", "model", "provider", "started_ms", "first_byte_ms", "total_ms"
)
_BALANCE: Final = Fields[Balance]("account", "balance_nano", "charged_nano")
_SNAPSHOT: Final = Fields[Snapshot](
    *("at_ms", "currency", "in_flight", "calls", "tokens", "charged_nano")
)


class SnapshotBook(Part):
    def __init__(self, books: Books) -> None:
        super().__init__(books)
        self._books = books

    def read(self, config: Config) -> Snapshot:
        """Read what is shown, of one state of the ledger. Raises LedgerError."""
        fetch, now_ms = self._database.fetch, self._database.clock()
        lately: dict[str, Value] = {"first": find_first_id(now_ms - LATELY_MS)}
        since = {**lately, "since": now_ms - MINUTE_MS}
        with self._database.snapshot():
            flying = {name: int(count) for name, count in fetch(_SQL["count in flight"])}
            rates = map(int, self._database.read_one(_SQL["rates"], since))
            calls, plain, cached, written, output, *charged = rates
            return Snapshot(
                at_ms=now_ms,
                currency=config.billing.currency,
                in_flight=sum(flying.values()),
                calls=calls,
                tokens=Tokens(plain, cached, written, output),
                charged_nano=join_parts(*charged),
                providers=_list_providers(self._books, config, flying),
                longest=[Call(*row) for row in fetch(_SQL["in flight"], {"limit": MOST})],
                slowest=[
                    Call(*row) for row in fetch(_SQL["slowest"], {**lately, "limit": SLOWEST})
                ],
                balances=self._list_balances(now_ms // HOUR_MS - HOURS_PER_DAY),
            )

    def _list_balances(self, hour: int) -> list[Balance]:
        rows = self._database.fetch(_SQL["lowest balances"], {"hour": hour, "limit": MOST})
        return [Balance(name, nano, join_parts(*charged)) for name, nano, *charged in rows]


def _list_providers(books: Books, config: Config, flying: dict[str, int]) -> list[ProviderLine]:
    """Return the providers with calls of today or in flight, those in trouble first."""
    seen = health.list_upstream(books, config)
    lines = []
    for name in config.providers:
        state = health.judge([one for one in seen if one.provider == name])
        if state.today.calls or flying.get(name):
            lines.append(ProviderLine(name, flying.get(name, 0), state))
    return sorted(lines, key=lambda one: (one.state.state not in _ALARMING, -one.in_flight))


def describe(snapshot: Snapshot) -> dict[str, object]:
    """Return the members for JSON, named as in the console's API."""
    return {
        **_SNAPSHOT.describe(snapshot),
        "providers": [
            {
                "name": one.provider,
                "in_flight": one.in_flight,
                **health.describe_upstream(one.state),
            }
            for one in snapshot.providers
        ],
        "longest": [_CALL.describe(one) for one in snapshot.longest],
        "slowest": [_CALL.describe(one) for one in snapshot.slowest],
        "balances": [_BALANCE.describe(one) for one in snapshot.balances],
    }
