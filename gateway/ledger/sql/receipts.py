"""Receipts of requests, each with its account and key, and what pending requests hold."""

from __future__ import annotations

from typing import Final

from gateway.base.ids import display
from gateway.extension import Told, find_ledger_tables
from gateway.ledger.call_records import CallDetail, KeyLabel
from gateway.ledger.records import NotFound
from gateway.ledger.sql.database import Part, join_parts, sum_parts
from gateway.ledger.sql.rows import read_receipt

_LABELS: Final = """
    SELECT accounts.name, keys.id, keys.name, keys.last4
    FROM requests JOIN keys ON keys.id = key_id JOIN accounts ON accounts.id = requests.account_id
    WHERE requests.id = :id AND requests.account_id = coalesce(:account, requests.account_id)
"""
_PENDING_HOLDS: Final = (
    f"SELECT count(*), {sum_parts('hold_nano')} FROM requests WHERE state = 'pending'"  # noqa: S608
)


class ReceiptBook(Part):
    def find(self, request_id: str, *, account_id: int | None = None) -> CallDetail | Told:
        """Return a request with its receipt, or what an extra knows of one that has none. Raises NotFound.

        If `account_id` is given, requests of other accounts are treated as unknown.
        """
        try:
            return self.read_detail(request_id, account_id=account_id)
        except NotFound:
            for tables in find_ledger_tables().values():
                if tables.find_refused is not None:
                    return tables.find_refused(self._database, request_id, account_id)
            raise

    def read_detail(self, request_id: str, *, account_id: int | None = None) -> CallDetail:
        """Return a request with its receipt. Those of other accounts are treated as unknown."""
        with self._database.snapshot() as connection:
            values = {"id": request_id, "account": account_id}
            labels = self._database.read_one(_LABELS, values)
            receipt = read_receipt(connection, request_id=request_id)
            told = [
                one.describe_call(self._database, request_id)
                for one in find_ledger_tables().values()
                if one.describe_call is not None
            ]
        if labels is None or receipt is None:
            raise NotFound("there is no call of that request id")
        account, key_id, key_name, last4 = labels
        key = KeyLabel(key_id, key_name, display(last4, key_id))
        return CallDetail(account, key, receipt, told)

    def measure_pending(self) -> tuple[int, int]:
        """Return how many requests are pending, and the sum of their holds in nano-units."""
        count, *parts = self._database.read_one(_PENDING_HOLDS)
        return int(count), join_parts(*parts)
