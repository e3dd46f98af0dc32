"""One round of the writer: what it is given, what it reports, and who carries it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from gateway.errors import GatewayError
from gateway.ledger.base import Account, Hold, Settlement
from gateway.ledger.key_records import Spending
from gateway.ledger.serving.memory import Snapshot
from gateway.ledger.serving.sums import Observations

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


class Store(Protocol):
    """Carries out rounds, one after the other; the event loop never waits for one."""

    takes_back: bool
    """Whether a charge is taken back that was committed after its void was queued."""

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
