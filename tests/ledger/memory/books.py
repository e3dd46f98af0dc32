"""The part of the operator's books that a serving ledger is seen by; `Needs.BOOKS` is the rest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from gateway.ledger.base import Account, Key, Line, Settlement
from gateway.ledger.call_records import CallFilter, CallView, ProviderCosts, UsageGroup, sum_costs
from gateway.ledger.key_records import Allowance, KeyChanges, KeyTerms, KeyView, TermChanges
from gateway.ledger.records import AccountView, AuditReport, EntryKind, EntryView, StoredSecret
from gateway.times import DAY_MS, format_day
from tests.ledger.memory.budgets import MemoryBudgets
from tests.ledger.memory.storage import MemoryStorage, Request


class MemoryBooks(AbstractContextManager["MemoryBooks"]):
    def __init__(self, storage: MemoryStorage, clock: Callable[[], int]) -> None:
        self._storage = storage
        self.clock = clock
        self.accounts = _Accounts(storage, clock)
        self.budgets = MemoryBudgets(storage, clock)
        self.keys = _Keys(storage, self.budgets, clock)
        self.entries = _Entries(storage, clock)
        self.calls = _Calls(storage)
        self.usage = _Usage(storage)

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
class _Usage:
    storage: MemoryStorage

    def sum_costs(
        self, by: UsageGroup, *, account: str | None, since_ms: int | None, until_ms: int | None
    ) -> dict[str, ProviderCosts]:
        sums: dict[str, list[ProviderCosts]] = {}
        for one in self.storage.requests.values():
            ended = one.settlement
            if ended is None or not ended.is_posted:
                continue
            group = {
                "day": format_day(ended.ended_ms // DAY_MS),
                "model": one.admission.model,
                "key": one.key.id,
            }[by]
            is_chosen = account in (None, one.key.account.name) and (
                (since_ms or 0) <= ended.ended_ms < (until_ms or ended.ended_ms + 1)
            )
            if is_chosen and (ended.provider_cost_nano, ended.reported_cost_nano) != (None, None):
                sums.setdefault(group, []).append(self._count(ended))
        return {group: sum_costs(costs) for group, costs in sums.items()}

    def _count(self, ended: Settlement) -> ProviderCosts:
        known, reported = ended.provider_cost_nano, ended.reported_cost_nano
        costs = ProviderCosts()
        if known is not None:
            costs = costs._replace(known=1, charged_nano=ended.cost_nano, cost_nano=known)
        if reported is not None:
            costs = costs._replace(reported=1, reported_nano=reported)
        if known is not None and reported is not None:
            costs = costs._replace(compared=1, difference_nano=reported - known)
        return costs


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
    budgets: MemoryBudgets
    clock: Callable[[], int]

    def create(
        self,
        account: str,
        terms: KeyTerms,
        new: StoredSecret,
        *,
        own: Allowance | None = None,
        line: Line | None = None,
    ) -> KeyView:
        if own is not None:
            terms = replace(terms, budget_id=self.budgets.create(account, None, own).id)
        key = Key(new.id, self.storage.accounts[account], terms, line or Line(new.id))
        key.budget = self.budgets.find_of(terms)
        self.storage.keys[new.digest] = key
        return self._show(key)

    def edit(self, key_id: str, changes: KeyChanges, *, own: Allowance | None = None) -> KeyView:
        key = self._find(key_id)
        if own is not None:
            changes = {**changes, "budget_id": self.budgets.set_own(key, own)}
        terms = replace(key.terms, **changes)
        if terms != key.terms:
            key.terms = terms
        if "cap_nano" in changes:
            for one in self.storage.keys.values():
                if one.line is key.line:
                    one.terms = replace(one.terms, cap_nano=changes["cap_nano"])
        key.budget = self.budgets.find_of(terms)
        return self._show(key)

    def replace(self, old_id: str, new: StoredSecret, *, grace_ms: int) -> KeyView:
        old = self._find(old_id)
        terms = old.terms
        old.terms = replace(old.terms, expires_ms=self.clock() + grace_ms)
        return self.create(old.account.name, terms, new, line=old.line)

    def revoke(self, key_id: str) -> KeyView:
        key = self._find(key_id)
        if key.revoked_ms is None:
            key.revoked_ms = self.clock()
        return self._show(key)

    def _find(self, key_id: str) -> Key:
        return next(one for one in self.storage.keys.values() if one.id == key_id)

    def _show(self, key: Key) -> KeyView:
        budget = None if key.budget is None else key.budget.show(self.clock())
        return KeyView(
            key.id,
            key.account.name,
            "",
            key.terms,
            key.spent_nano,
            0,
            key.revoked_ms,
            None,
            None,
            budget,
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
            account=request.key.account.name,
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
