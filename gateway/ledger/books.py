"""The contract of the operator's books: what the command line and the console ask of a ledger.

Each part has the verbs of one thing: `books.keys.revoke(key_id)`. A call is one short transaction
and blocks until it is committed. What it changes is also noted as an event, under `books.actor`.

Every call may raise LedgerError when the ledger cannot be used. Besides that, reads raise NotFound
for what does not exist, and changes raise Refused or one of its kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from gateway.ledger.code_records import CodeStatus, CodeTerms, CodeView
from gateway.ledger.key_records import KeyChanges, KeyTerms, KeyView, TermChanges, Terms
from gateway.ledger.records import (
    AccountView,
    Actor,
    AuditReport,
    CallFilter,
    CallView,
    EntryFilter,
    EntryKind,
    EntryRun,
    EntryView,
    EventView,
    OpenedBy,
    Opening,
    RepeatableRequest,
    SessionView,
    StandingView,
    StoredReply,
    StoredSecret,
)
from gateway.ledger.usage_records import (
    ChartUnit,
    OverviewView,
    Usage,
    UsageFilter,
    UsageGroup,
    UsageReport,
)


class Accounts(Protocol):
    def read(self, name: str) -> AccountView: ...

    def read_all(self) -> list[AccountView]:
        """Return all accounts by name."""

    def find_names(self, search: str | None) -> list[tuple[str, int]]:
        """Return names and ids by name; `search` is a part of the name, in any case."""

    def find_id(self, name: str) -> int: ...
    def find_name(self, account_id: int) -> str: ...

    def read_standing(self, account_id: int, *, since_day: int) -> StandingView:
        """Return the account with what it spent since the start of a UTC day."""

    def read_standings(self, account_ids: Sequence[int], *, since_day: int) -> list[StandingView]:
        """Return the accounts of these ids by name; unknown ids are left out."""

    def create(
        self, name: str, *, credit_nano: int, operator: bool, note: str = "", terms: Terms = ...
    ) -> AccountView: ...

    def edit(self, name: str, changes: TermChanges, *, operator: bool | None = None) -> AccountView:
        """Change terms or role; a new role ends sessions and links. The last operator stays one."""

    def suspend(self, name: str, *, reason: str = "") -> AccountView: ...
    def resume(self, name: str) -> AccountView: ...


class Keys(Protocol):
    """If `account_id` is given, keys of other accounts are treated as unknown."""

    def read(self, key_id: str, *, account_id: int | None = None) -> KeyView: ...

    def read_all(self, account: str | None = None) -> list[KeyView]:
        """Return all keys, or those of an account; by account, the oldest first."""

    def read_page(
        self,
        account_id: int,
        *,
        live_at_ms: int | None,
        after: tuple[str | int, ...] | None,
        limit: int,
    ) -> tuple[int, list[KeyView]]:
        """Return how many keys there are, and those behind `after`, the newest first.

        `after` is (created_ms, id). Keys that have ended by `live_at_ms` are left out.
        """

    def create(self, account: str, terms: KeyTerms, new: StoredSecret) -> KeyView: ...
    def edit(
        self, key_id: str, changes: KeyChanges, *, account_id: int | None = None
    ) -> KeyView: ...

    def replace(
        self, old_id: str, new: StoredSecret, *, grace_ms: int, account_id: int | None = None
    ) -> KeyView:
        """Create a key on the old one's terms, with the rest of its cap; the old one expires.

        During the grace both keys may spend that rest, because each counts its own charges.
        """

    def revoke(self, key_id: str, *, account_id: int | None = None) -> KeyView:
        """Revoke a key at once; a key that is revoked already keeps its time."""


class Codes(Protocol):
    def add(self, rows: Sequence[StoredSecret], terms: CodeTerms, now_ms: int) -> None: ...

    def read_page(
        self, status: CodeStatus | None, batch: str | None, after: str | None, limit: int | None
    ) -> tuple[int, list[CodeView]]:
        """Return how many codes match, and those behind the id `after`, the newest first.

        None as `limit` means no limit.
        """

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


class Calls(Protocol):
    def read_page(self, chosen: CallFilter, below_id: str | None, limit: int) -> list[CallView]:
        """Return the latest calls below an id, including pending ones."""

    def count(self, chosen: CallFilter) -> int: ...

    def measure_pending(self) -> tuple[int, int]:
        """Return how many requests are pending, and what they hold in nano-units."""


class UsageSums(Protocol):
    def sum_by(
        self, by: UsageGroup, *, account: str | None, since_ms: int | None, until_ms: int | None
    ) -> list[tuple[str, Usage]]:
        """Sum the posted requests that ended in [since, until)."""

    def report(self, chosen: UsageFilter, unit: ChartUnit, *, by_key: bool = False) -> UsageReport:
        """Sum the chosen requests by day or hour and, if asked for, by key."""

    def read_overview(self, account_id: int, *, first_day: int, soon_ms: int) -> OverviewView:
        """Return the days since `first_day`, and the keys that expire within `soon_ms`."""

    def sum_by_key(self, account_id: int, first_day: int, last_day: int) -> dict[str, int]:
        """Return what each key was charged in nano-units; both days are inclusive."""


class SignIns(Protocol):
    """Passwords as hashes, sign-in links and sessions by the SHA-256 of their token."""

    def find_password_hash(self, account: str) -> str | None:
        """Return None if there is no such account, or it has no password."""

    def set_password(self, account: str, password_hash: str) -> int:
        """Set it and end all sessions and links of the account; return how many sessions."""

    def change_password(
        self, session: SessionView, seen_hash: str | None, password_hash: str, opening: Opening
    ) -> SessionView:
        """Set the password for somebody who is signed in and goes on in a new session.

        `seen_hash` is what the current password was checked against. Raises NotFound if the
        session has ended meanwhile, Conflict if the password was changed.
        """

    def set_link(self, account: str, digest: bytes, expires_ms: int) -> None:
        """Give the account a sign-in link; an earlier one ends."""

    def open_by_link(self, digest: bytes, opening: Opening) -> SessionView | None:
        """Use a link up; return None if it is unknown, used or expired."""

    def open_by_password(
        self, account: str, seen_hash: str, renewed_hash: str | None, opening: Opening
    ) -> SessionView | None:
        """Open a session; return None if the password that was checked has been changed.

        `renewed_hash` is the same password hashed with the current parameters.
        """

    def find_session(self, digest: bytes) -> SessionView | None:
        """Return the session if it has not ended, and note that it was used."""

    def read_sessions(self, account_id: int) -> list[SessionView]:
        """Return the sessions that have not ended, the last used first."""

    def end_session(self, account: AccountView, session_id: str) -> None:
        """Raises NotFound if the session has ended or is another account's."""

    def end_other_sessions(self, session: SessionView) -> int:
        """End the account's other sessions; return how many there were."""

    def end_all_sessions(self, account: str) -> int:
        """End all sessions and links of an account; return how many sessions there were."""

    def note_failure(self, account: str | None, how: OpenedBy, *, if_known: bool = False) -> None:
        """Note a failure; unknown names are not kept: they may be passwords."""


class Events(Protocol):
    def read_page(self, search: str | None, before_id: int | None, limit: int) -> list[EventView]:
        """Return the latest first; `search` is a part of actor, action, account or target."""

    def count(self, search: str | None) -> int: ...

    def find_last_ms(self, action: str) -> int | None:
        """Return when the action was last done, or None."""


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
    codes: Codes
    entries: Entries
    calls: Calls
    usage: UsageSums
    signins: SignIns
    events: Events
    replays: Replays

    actor: Actor
    """The one who acts, for the events."""

    def clock(self) -> int:
        """Return the time that is written, in Unix milliseconds."""

    def snapshot(self) -> AbstractContextManager[object]:
        """Let all reads inside see one state of the ledger."""

    def audit(self) -> AuditReport:
        """Prove that balances, entries, requests and sums agree; a success is a checkpoint."""

    def find_last_checkpoint_ms(self) -> int | None:
        """Return when a proof last covered new entries, whichever process ran it."""

    def back_up(self, target: Path) -> int:
        """Write a consistent copy to a new file while others write; return its size in bytes."""

    def measure(self) -> tuple[int, int]:
        """Return the bytes of the ledger, and of its log of recent commits."""

    def wait_for_others(self, milliseconds: int) -> None:
        """Set how long a change waits for another connection that is changing."""

    def wait_in_force(self) -> None:
        """Return once a serving process, if there is one, goes by all that is committed."""

    def give_up_when(self, is_over: Callable[[], bool]) -> None:
        """Let a long statement fail with LedgerError once `is_over` is True, on its thread."""

    def close(self) -> None: ...
