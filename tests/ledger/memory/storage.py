"""The content of the ledger: accounts, keys, requests and entries, and the proof that they agree."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.ledger.base import Account, Admission, Key, Settlement
from gateway.ledger.call_records import Correction, Receipt
from gateway.ledger.key_records import Budget, Spending, find_span
from gateway.ledger.records import AuditReport, EntryKind, EntryView


@dataclass(eq=False)
class Request:
    """A committed request: pending, until it has a settlement or a crash interrupts it."""

    admission: Admission
    key: Key
    budget: Budget | None = None
    settlement: Settlement | None = None
    interrupted_ms: int | None = None

    @property
    def is_pending(self) -> bool:
        return self.settlement is None and self.interrupted_ms is None

    @property
    def charge_nano(self) -> int | None:
        """Return the amount of the entry that it must have, or None if it must have none."""
        ended = self.settlement
        return -ended.cost_nano if ended is not None and ended.is_posted else None


@dataclass(eq=False)
class MemoryStorage:
    """Everything that is committed. Servers and books share it, so changes are in force at once."""

    accounts: dict[str, Account] = field(default_factory=dict)
    keys: dict[bytes, Key] = field(default_factory=dict)
    """By the digest of the secret."""
    requests: dict[str, Request] = field(default_factory=dict)
    budgets: dict[int, Budget] = field(default_factory=dict)
    entries: list[EntryView] = field(default_factory=list)
    """Only ever appended to."""
    checkpoint_ms: int | None = None

    def post(
        self,
        account: Account,
        kind: EntryKind,
        amount_nano: int,
        *,
        created_ms: int,
        request_id: str | None = None,
        note: str = "",
    ) -> EntryView:
        """Append one entry, and assign the balance after it."""
        account.balance_nano += amount_nano
        entry = EntryView(
            id=len(self.entries) + 1,
            account=account.name,
            kind=kind,
            amount_nano=amount_nano,
            balance_after_nano=account.balance_nano,
            request_id=request_id,
            note=note,
            created_ms=created_ms,
        )
        self.entries.append(entry)
        return entry

    def settle(self, request: Request, settlement: Settlement, now_ms: int) -> None:
        """End a pending request, and charge it if something is owed."""
        assert request.is_pending, "a request ends once"
        request.settlement = settlement
        if settlement.is_posted:
            key = request.key
            key.line.spent_nano += settlement.cost_nano
            amount_nano, request_id = -settlement.cost_nano, request.admission.request_id
            self.post(key.account, "charge", amount_nano, created_ms=now_ms, request_id=request_id)
            if request.budget is not None:
                self.sum_budget(request.budget, now_ms)

    def sum_budget(self, budget: Budget, now_ms: int) -> None:
        """Sum what was charged to a budget in the period of a time."""
        span = find_span(budget.allowance.period, now_ms)
        mine = [one.settlement for one in self.requests.values() if one.budget is budget]
        spent = (end.cost_nano for end in mine if end is not None and span.contains(end.ended_ms))
        budget.spending = Spending(span, sum(spent))

    def interrupt_pending(self, now_ms: int) -> None:
        """Void what was in flight when the last server ended; nothing is held any more."""
        for request in self.requests.values():
            if request.is_pending:
                request.interrupted_ms = now_ms
        for key in self.keys.values():
            key.line.held_nano = key.account.held_nano = 0
        for budget in self.budgets.values():
            budget.held_nano = 0

    def make_receipt(self, request: Request) -> Receipt:
        admission, ended = request.admission, request.settlement
        begun = Receipt(
            request_id=admission.request_id,
            key_id=request.key.id,
            state="pending" if request.is_pending else "voided",
            outcome="pending" if request.is_pending else "interrupted",
            model=admission.model,
            provider=admission.provider,
            stream=admission.stream,
            price=admission.price,
            hold_nano=admission.hold_nano,
            started_ms=admission.started_ms,
            ended_ms=request.interrupted_ms,
        )
        return begun if ended is None else self._add_end(begun, ended)

    def _add_end(self, begun: Receipt, ended: Settlement) -> Receipt:
        return Receipt(
            request_id=begun.request_id,
            key_id=begun.key_id,
            state="posted" if ended.is_posted else "voided",
            outcome=ended.outcome,
            model=begun.model,
            provider=ended.provider,
            stream=begun.stream,
            price=ended.price,
            hold_nano=begun.hold_nano,
            started_ms=begun.started_ms,
            attempts=ended.attempts,
            status=ended.status,
            tokens=ended.tokens,
            tool_calls=ended.tool_calls,
            cost_nano=ended.cost_nano,
            estimated=ended.estimated,
            first_byte_ms=ended.first_byte_ms,
            ended_ms=ended.ended_ms,
            corrections=tuple(
                Correction(one.amount_nano, one.note, one.created_ms)
                for one in self.entries
                if one.kind == "correction" and one.request_id == begun.request_id
            ),
        )

    def audit(self) -> AuditReport:
        """Prove that entries and balances agree, and that each request has the entry it must."""
        problems = []
        balances = dict.fromkeys(self.accounts, 0)
        for entry in self.entries:
            balances[entry.account] += entry.amount_nano
            if entry.balance_after_nano != balances[entry.account]:
                problems.append(f"entry {entry.id}: its balance is not the sum of the entries")
        for name, account in self.accounts.items():
            if account.balance_nano != balances[name]:
                problems.append(f"account {name}: its balance is not the sum of its entries")
        charges = [one for one in self.entries if one.kind == "charge"]
        charged = {one.request_id: one.amount_nano for one in charges}
        owed = {id_: one.charge_nano for id_, one in self.requests.items()}
        if len(charges) != len(charged) or charged != {
            id_: amount for id_, amount in owed.items() if amount is not None
        }:
            problems.append("the charges are not those of the requests")
        return AuditReport(
            ok=not problems,
            problems=tuple(problems),
            accounts=len(self.accounts),
            entries=len(self.entries),
            pending=sum(one.is_pending for one in self.requests.values()),
        )
