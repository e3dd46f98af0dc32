"""Refunds: corrections that give back what a request cost, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateway.base.money import format_amount
from gateway.ledger import checks
from gateway.ledger.records import EntryView, NotFound, Refused
from gateway.ledger.sql.database import Part, join_parts, read_script
from gateway.ledger.sql.entries import EntryBook

_SQL: Final = read_script(__file__)


class RefundBook(Part):
    def give_back(
        self, request_id: str, amount_nano: int | None = None, *, note: str, force: bool = False
    ) -> EntryView:
        """Refund the cost of a request or a part of it; by default all that was not refunded yet.

        The same amount of a request is refunded once: a repeated call returns the first entry. Raises
        Refused above the rest, unless an amount is given and forced.
        """
        entries = EntryBook(self._database)
        checks.require_text("the note of a refund", note, checks.MAX_NOTE_CHARS, "note")
        with self._database.changing():
            account, account_id, cost_nano = self._read_cost(request_id)
            left_nano = cost_nano - join_parts(
                *self._database.read_one(_SQL["given back"], (request_id,))
            )
            is_rest = amount_nano is None and 0 < left_nano < cost_nano
            if amount_nano is None:
                # A repeated call finds no rest, but the first call's entry; it must not force the cost again.
                amount_nano, force = left_nano if left_nano > 0 else cost_nano, False
            key = f"refund {request_id} {amount_nano}"
            if is_rest:  # as much may have been given back before
                key += f" after {cost_nano - left_nano}"
            earlier = entries.find_repeated(account_id, key)
            if earlier is not None:
                return replace(earlier, is_repeated=True)
            checks.require_credit(amount_nano)
            if amount_nano > left_nano and not force:
                raise Refused(
                    f"request '{request_id}' cost {format_amount(cost_nano)}, of which"
                    f" {format_amount(max(left_nano, 0))} is left to give back; more needs an amount that is forced",
                    field="amount",
                )
            return entries.post(
                account,
                "correction",
                amount_nano,
                note=note,
                idempotency_key=key,
                request_id=request_id,
            )

    def _read_cost(self, request_id: str) -> tuple[str, int, int]:
        """Return name and id of a request's account, and what it was charged. Raises NotFound, Refused."""
        missing = NotFound(f"there is no request '{request_id}'", field="request_id")
        name, account_id, cost_nano = self._database.require_one(
            _SQL["cost"], (request_id,), missing
        )
        if cost_nano == 0:
            raise Refused(f"request '{request_id}' cost nothing, so there is nothing to give back")
        return name, account_id, cost_nano
