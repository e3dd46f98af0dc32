"""The part of the operator's books that a serving ledger is seen by; `Needs.BOOKS` is the rest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from gateway.ledger import (
    Account,
    AccountView,
    AuditReport,
    CallFilter,
    CallView,
    EntryKind,
    EntryView,
    Key,
    KeyChanges,
    KeyTerms,
    KeyView,
    StoredSecret,
    TermChanges,
)
from tests.ledger.memory.storage import MemoryStorage, Request


class MemoryBooks(AbstractContextManager["MemoryBooks"]):
    def __init__(self, storage: MemoryStorage, clock: Callable[[], int]) -> None:
        self._storage = storage
        self.clock = clock
        self.accounts = _Accounts(storage, clock)
        self.keys = _Keys(storage, clock)
        self.entries = _Entries(storage, clock)
        self.calls = _Calls(storage)

    def __exit__(self, *_: object) -> None:
        return

    def snapshot(self) -> AbstractContextManager[None]:
        return nullcontext()

    def audit(self) -> AuditReport:
        report = self._storage.audit()
        if report.ok:
            self._storage.checkpoint_ms = self.clock()
        return report

    def find_last_checkpoint_ms(self) -> int | None:
        return self._storage.checkpoint_ms


@dataclass(frozen=True)
class _Accounts:
    storage: MemoryStorage
    clock: Callable[[], int]

    def create(self, name: str, *, credit_nano: int, operator: bool, note: str = "") -> AccountView:
        assert not operator
        account = Account(len(self.storage.accounts) + 1, name, suspended=False, balance_nano=0)
        self.storage.accounts[name] = account
        if credit_nano:
            self.storage.post(account, "credit", credit_nano, created_ms=self.clock(), note=note)
        return self.read(name)

    def read(self, name: str) -> AccountView:
        account = self.storage.accounts[name]
        pending = [one for one in self.storage.requests.values() if one.is_pending]
        held = (one.admission.hold_nano for one in pending if one.key.account is account)
        balance_nano = account.balance_nano
        return AccountView(
            account.id,
            name,
            False,
            account.suspended,
            balance_nano,
            sum(held),
            self.clock(),
            account.terms,
        )

    def edit(self, name: str, changes: TermChanges) -> AccountView:
        account = self.storage.accounts[name]
        terms = replace(account.terms, **changes)
        if terms != account.terms:
            account.terms = terms
        return self.read(name)

    def find_id(self, name: str) -> int:
        return self.storage.accounts[name].id

    def suspend(self, name: str) -> AccountView:
        self.storage.accounts[name].suspended = True
        return self.read(name)

    def resume(self, name: str) -> AccountView:
        self.storage.accounts[name].suspended = False
        return self.read(name)


@dataclass(frozen=True)
class _Keys:
    storage: MemoryStorage
    clock: Callable[[], int]

    def create(self, account: str, terms: KeyTerms, new: StoredSecret) -> KeyView:
        key = Key(new.id, self.storage.accounts[account], terms)
        self.storage.keys[new.digest] = key
        return self._show(key)

    def edit(self, key_id: str, changes: KeyChanges) -> KeyView:
        key = self._find(key_id)
        terms = replace(key.terms, **changes)
        if terms != key.terms:
            key.terms = terms
        return self._show(key)

    def replace(self, old_id: str, new: StoredSecret, *, grace_ms: int) -> KeyView:
        old = self._find(old_id)
        terms = old.terms
        if terms.cap_nano is not None:
            terms = replace(terms, cap_nano=terms.cap_nano - old.spent_nano)
        old.terms = replace(old.terms, expires_ms=self.clock() + grace_ms)
        return self.create(old.account.name, terms, new)

    def revoke(self, key_id: str) -> KeyView:
        key = self._find(key_id)
        if key.revoked_ms is None:
            key.revoked_ms = self.clock()
        return self._show(key)

    def _find(self, key_id: str) -> Key:
        return next(one for one in self.storage.keys.values() if one.id == key_id)

    def _show(self, key: Key) -> KeyView:
        return KeyView(
            key.id, key.account.name, "", key.terms, key.spent_nano, 0, key.revoked_ms, None, None
        )


@dataclass(frozen=True)
class _Entries:
    storage: MemoryStorage
    clock: Callable[[], int]

    def post(
        self,
        account: str,
        kind: EntryKind,
        amount_nano: int,
        *,
        note: str,
        request_id: str | None = None,
    ) -> EntryView:
        return self.storage.post(
            self.storage.accounts[account],
            kind,
            amount_nano,
            created_ms=self.clock(),
            request_id=request_id,
            note=note,
        )

    def read_latest(self, account: str, limit: int) -> list[EntryView]:
        return [one for one in reversed(self.storage.entries) if one.account == account][:limit]


@dataclass(frozen=True)
class _Calls:
    storage: MemoryStorage

    def measure_pending(self) -> tuple[int, int]:
        pending = [one for one in self.storage.requests.values() if one.is_pending]
        return len(pending), sum(one.admission.hold_nano for one in pending)

    def read_page(self, chosen: CallFilter, below_id: None, limit: int) -> list[CallView]:
        assert below_id is None
        found = sorted(self.storage.requests.items(), reverse=True)
        mine = [one for _, one in found if one.key.account.id == chosen.account_id]
        return [self._show(one) for one in mine[:limit]]

    def _show(self, request: Request) -> CallView:
        told = self.storage.make_receipt(request)
        return CallView(
            request_id=told.request_id,
            started_ms=told.started_ms,
            ended_ms=told.ended_ms,
            model=told.model,
            provider=told.provider,
            key_id=told.key_id,
            key_name=request.key.terms.name,
            key_display="",
            state=told.state,
            outcome=told.outcome,
            status=told.status,
            stream=told.stream,
            tokens=told.tokens,
            cost_nano=told.cost_nano,
            estimated=told.estimated,
            first_byte_ms=told.first_byte_ms,
        )
