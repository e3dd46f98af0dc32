"""The contract of the operator's books: what the command line and the console ask of a ledger.

Each part has the verbs of one thing: `books.keys.revoke(key_id)`. A call is one short transaction
and blocks until it is committed. What it changes is also noted as an event, under `books.actor`.

Every call may raise LedgerError when the ledger cannot be used. Besides that, reads raise NotFound
for what does not exist, and changes raise Refused or one of its kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from gateway.ledger.alert_records import Alerts
from gateway.ledger.call_books import Calls, UsageSums
from gateway.ledger.code_records import CodeStatus, CodeTerms, CodeView
from gateway.ledger.key_books import Budgets, Keys
from gateway.ledger.key_records import TermChanges, Terms
from gateway.ledger.observations import Observations
from gateway.ledger.records import (
    AccountOrder,
    AccountView,
    Actor,
    AuditReport,
    EntryFilter,
    EntryKind,
    EntryRun,
    EntryView,
    EventView,
    MoveRecord,
    NodeView,
    RepeatableRequest,
    StandingView,
    StoredReply,
    StoredSecret,
)
from gateway.ledger.signin_books import SignIns, Tokens


class Accounts(Protocol):
    def read(self, name: str) -> AccountView: ...

    def read_all(self) -> list[AccountView]:
        """Return all accounts by name."""

    def find_names(self, search: str | None) -> list[tuple[str, int]]:
        """Return names and ids by name; `search` is a part of the name, in any case."""

    def find_id(self, name: str) -> int: ...
    def find_name(self, account_id: int) -> str: ...

    def rank(self, by: AccountOrder, *, today: int) -> dict[int, int]:
        """Return an amount of each account by its id; no amount is 0, and so is any by name."""

    def read_standing(self, account_id: int, *, today: int) -> StandingView:
        """Return the account with what it spent; `today` is counted in UTC days from the epoch."""

    def read_standings(self, account_ids: Sequence[int], *, today: int) -> list[StandingView]:
        """Return the accounts of these ids in their order; unknown ids are left out."""

    def create(
        self, name: str, *, credit_nano: int, operator: bool, note: str = "", terms: Terms = ...
    ) -> AccountView: ...

    def edit(self, name: str, changes: TermChanges, *, operator: bool | None = None) -> AccountView:
        """Change terms or role; a new role ends sessions and links. The last operator stays one."""

    def suspend(self, name: str, *, reason: str = "") -> AccountView: ...
    def resume(self, name: str) -> AccountView: ...


class Codes(Protocol):
    def add(self, rows: Sequence[StoredSecret], terms: CodeTerms, now_ms: int) -> None: ...

    def read_page(
        self, status: CodeStatus | None, batch: str | None, after: str | None, limit: int | None
    ) -> tuple[int, list[CodeView]]:
        """Return how many match, and those behind the id `after`, newest first; None: no limit."""

    def void(self, code_id: str) -> CodeView:
        """Void a code at once; a code that is void already keeps its time."""

    def void_batch(self, batch: str) -> int:
        """Void the open codes of a batch; return how many there were."""

    def redeem(self, account: str, digest: bytes) -> EntryView:
        """Credit the account with a code, at most once. Raises InvalidCode."""


class Entries(Protocol):
    def post(
        self,
        account: str,
        kind: EntryKind,
        amount_nano: int,
        *,
        note: str,
        idempotency_key: str | None = None,
        request_id: str | None = None,
        target: str | None = None,
    ) -> EntryView:
        """Append one entry, or return that of the same idempotency key; the event names `target`."""

    def read_latest(self, account: str, limit: int) -> list[EntryView]:
        """Return the latest first."""

    def read_run(self, chosen: EntryFilter, below_id: int | None, limit: int) -> EntryRun:
        """Look at the latest `limit` entries below an id; return those of the chosen times."""

    def count(self, account_id: int, kind: EntryKind | None = None) -> int: ...


class Events(Protocol):
    def read_page(self, search: str | None, before_id: int | None, limit: int) -> list[EventView]:
        """Return the latest first; `search` is a part of actor, action, account or target."""

    def count(self, search: str | None) -> int: ...

    def find_last(self, action: str, address: str | None = None) -> EventView | None:
        """Return the last event of an action, of anybody or from an address, or None."""

    def append(self, action: str, *, target: str, detail: str, at_ms: int) -> None:
        """Note what a process did to itself, and when. It must not contain a secret."""


class Replays(Protocol):
    def run_once(
        self, repeatable: RepeatableRequest, do: Callable[[], StoredReply]
    ) -> tuple[StoredReply, bool]:
        """Call `do`, or return the reply of the first call; and whether there was one before.

        `do` runs in the transaction that keeps its reply: both are committed, or neither.
        Raises OtherRequest if the idempotency key was used before with another body.
        """


class Books(AbstractContextManager["Books"], Protocol):
    """One connection to the books, for one thread at a time; a context manager."""

    accounts: Accounts
    keys: Keys
    budgets: Budgets
    codes: Codes
    entries: Entries
    calls: Calls
    usage: UsageSums
    signins: SignIns
    tokens: Tokens
    events: Events
    observations: Observations
    alerts: Alerts
    replays: Replays

    actor: Actor
    """The one who acts, for the events."""

    def clock(self) -> int:
        """Return the time that is written, in Unix milliseconds."""

    def snapshot(self) -> AbstractContextManager[object]:
        """Let all reads inside see one state of the ledger."""

    def audit(self) -> AuditReport:
        """Prove that balances, entries, requests and sums agree; a success is a checkpoint."""

    def list_nodes(self) -> list[NodeView]:
        """Return the processes that serve from a shared ledger; none if only one can serve."""

    def find_last_checkpoint_ms(self) -> int | None:
        """Return when a proof last covered new entries, whichever process ran it."""

    def back_up(self, target: Path) -> int:
        """Write a consistent copy to a new file while others write; return its size in bytes."""

    def read_records(self) -> tuple[int, Iterator[MoveRecord]]:
        """Return the schema's version and all rows that move; read them within a `snapshot`."""

    def measure(self) -> tuple[int, int]:
        """Return the bytes of the ledger, and of its log of recent commits."""

    def wait_for_others(self, milliseconds: int) -> None:
        """Set how long a change waits for another connection that is changing."""

    def wait_in_force(self) -> None:
        """Return once a serving process, if there is one, goes by all that is committed."""

    def give_up_when(self, is_over: Callable[[], bool]) -> None:
        """Let a long statement fail with LedgerError once `is_over` is True, on its thread."""

    def close(self) -> None: ...
