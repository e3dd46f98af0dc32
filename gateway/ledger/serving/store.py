"""The contract of a store, which carries out the writer's rounds in one database, and its records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from gateway.errors import GatewayError
from gateway.ledger.alert_records import UpstreamFailure
from gateway.ledger.base import Account, Hold, Settlement
from gateway.ledger.key_records import Spending
from gateway.ledger.serving.memory import Snapshot

MAX_ITEMS: Final = 512
"""The most items of a batch: 33 columns of 512 rows stay below SQLite's 32,766 parameters."""


@dataclass(slots=True)
class Item:
    """One request's step: its row is inserted, or settled, or both at once; else its hold is raised."""

    hold: Hold
    insert: bool
    settlement: Settlement | None

    @property
    def request_id(self) -> str:
        return self.hold.admission.request_id


@dataclass(slots=True)
class Report:
    """The result; items in none of the lists were not tried, or may be tried again."""

    polled: bool = False
    """True if other connections' commits were looked for; `snapshot` is what they changed."""
    snapshot: Snapshot | None = None
    balances_nano: dict[int, int] = field(default_factory=dict)
    spent_nano: dict[str, int] = field(default_factory=dict)
    spendings: dict[int, Spending] = field(default_factory=dict)
    done: list[Item] = field(default_factory=list)
    in_full: list[Item] = field(default_factory=list)
    """Admissions that hold all that they may cost, as others hold what this process knows nothing of."""
    declined: list[tuple[Item, GatewayError]] = field(default_factory=list)
    """Admissions that the ledger's rules refuse, where other processes admit requests too."""
    refused: list[tuple[Item, Exception]] = field(default_factory=list)
    """Bad items: they would fail each batch."""
    locked: set[Account] = field(default_factory=set)
    """Accounts of which another program has locked rows: their items were set aside."""
    freed: set[Account] = field(default_factory=set)
    """Accounts that were locked in an earlier round, and are not any more."""
    unavailable: Exception | None = None
    """Why the database does not work."""
    is_brief: bool = False
    """Another process's transaction is in the way: the next try may work at once."""
    ended: Exception | None = None
    """Why this process must not commit anything any more."""


RefusalKey = tuple[int, int | None, str, str]
"""Hour, account id, code, model."""
RefusedRow = tuple[str, int, int, str, str, str]
"""Request id, time, account id, key id, code, the model that it named."""
CallKey = tuple[int, str, str]
"""Slot, provider, upstream model."""
LatencyKey = tuple[int, int, str, str]
"""Hour, account id, provider, upstream model."""
MAX_TIMES: Final = 65_536
"""Times of a key in memory, beyond which no more are added while the ledger cannot be written."""


@dataclass(slots=True)
class RefusalSum:
    count: int = 0
    last_ms: int = 0
    last_request_id: str = ""

    def add(self, other: RefusalSum) -> None:
        """Add what came later."""
        self.count += other.count
        self.last_ms, self.last_request_id = other.last_ms, other.last_request_id


@dataclass(slots=True)
class CallSum:
    calls: int = 0
    failures: int = 0
    last: UpstreamFailure | None = None

    def add(self, other: CallSum) -> None:
        """Add what came later."""
        self.calls += other.calls
        self.failures += other.failures
        self.last = other.last or self.last


@dataclass(slots=True)
class Observations:
    """Sums that are not written yet."""

    refusals: dict[RefusalKey, RefusalSum] = field(default_factory=dict)
    refused: list[RefusedRow] = field(default_factory=list)
    calls: dict[CallKey, CallSum] = field(default_factory=dict)
    failures: list[UpstreamFailure] = field(default_factory=list)
    latencies: dict[LatencyKey, list[int]] = field(default_factory=dict)
    """First byte and total of each complete reply, one behind the other, in ms."""

    def __bool__(self) -> bool:
        return bool(self.refusals or self.calls or self.latencies)

    def add(self, later: Observations) -> None:
        for key, refusal in later.refusals.items():
            self.refusals.setdefault(key, RefusalSum()).add(refusal)
        self.refused += later.refused
        for slot, call in later.calls.items():
            self.calls.setdefault(slot, CallSum()).add(call)
        self.failures += later.failures
        for place, times in later.latencies.items():
            kept = self.latencies.setdefault(place, [])
            if len(kept) < MAX_TIMES:
                kept += times


class Store(Protocol):
    """Carries out rounds, one after the other; the event loop never waits for one."""

    is_shared: bool
    """True if other processes serve from the database, too: a hold is in force once it is stored."""
    takes_back: bool
    """True if a charge that was committed after its void was queued is taken back."""

    @property
    def log_bytes(self) -> int:
        """Return the size of the log of recent commits, as it was a moment ago; 0 if it lies elsewhere."""

    def start_round(
        self,
        items: Sequence[Item],
        *,
        polls: bool,
        report: Callable[[Report | BaseException], None],
    ) -> None:
        """Poll if told, then commit the items together, or one by one if one is bad.

        `report` is called on the loop with the result, or with the error that a bug of ours raised.
        """

    def start_observing(
        self, observed: Observations, *, report: Callable[[BaseException | None], None]
    ) -> None:
        """Write sums, behind the round under way. `report` gets None, or why they are not written."""

    def break_off(self) -> None:
        """Let a round that hangs fail, if that can be done."""
