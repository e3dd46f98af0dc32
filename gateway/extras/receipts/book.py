"""Calls by their request ids: the receipt with its account, key and failures, or the refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.admin.fields import Fields
from gateway.extras.observations.book import ObservationBook
from gateway.extras.observations.describing import FAILURE, KEY_LABEL
from gateway.extras.observations.records import KeyLabel, RefusedView, UpstreamFailure, label_key
from gateway.ledger.call_records import Receipt, describe_receipt
from gateway.ledger.sql.database import Part
from gateway.ledger.sql.rows import read_receipt

_LABELS: Final = """
    SELECT accounts.name, keys.id, keys.name, keys.last4
    FROM requests JOIN keys ON keys.id = key_id JOIN accounts ON accounts.id = requests.account_id
    WHERE requests.id = :id AND requests.account_id = coalesce(:account, requests.account_id)
"""
_ATTEMPT: Final = Fields[UpstreamFailure](*FAILURE.members, "rejected")


@dataclass(frozen=True, slots=True)
class CallDetail:
    """The receipt of a request, with its account and key."""

    account: str
    key: KeyLabel
    receipt: Receipt
    failures: Sequence[UpstreamFailure] = ()
    """How attempts failed, in order. They have providers' addresses, so they are for operators."""


class ReceiptBook(Part):
    """If `account_id` is given, requests of other accounts are treated as unknown."""

    def find(self, request_id: str, *, account_id: int | None = None) -> CallDetail | RefusedView:
        """Return a request with its receipt, or how it was refused. Raises NotFound."""
        with self._database.snapshot() as connection:
            values = {"id": request_id, "account": account_id}
            labels = self._database.read_one(_LABELS, values)
            receipt = read_receipt(connection, request_id=request_id)
            observed = ObservationBook(self._database)
            if labels is None or receipt is None:
                return observed.find_refused(request_id, account_id=account_id)
            failures = observed.read_failures(request_id, request_id)
        account, *label = labels
        return CallDetail(account, label_key(*label), receipt, failures)


def describe_call_detail(
    detail: CallDetail, currency: str, *, for_operator: bool
) -> dict[str, object]:
    receipt = describe_receipt(detail.receipt, currency, for_operator=for_operator)
    members = {"account": detail.account, **KEY_LABEL.describe(detail.key), **receipt}
    if for_operator:
        members["failures"] = [_ATTEMPT.describe(one) for one in detail.failures]
    return members
