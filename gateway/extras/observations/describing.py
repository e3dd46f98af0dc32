"""What receipts tell of failed attempts, and what is told in place of one of a refused request."""

from __future__ import annotations

from typing import Final

from gateway.admin.fields import Fields
from gateway.base.times import format_moment
from gateway.extension import Told
from gateway.extras.observations.book import ObservationBook
from gateway.extras.observations.records import RefusedView, UpstreamFailure
from gateway.ledger.sql.database import Database

REFUSED: Final = Fields[RefusedView](
    ("state", lambda _: "refused"),
    *("request_id", "account", "at_ms", "code", "model"),
    table=(("REFUSED UTC", "at_ms"), "account", "code", ("MODEL", "model"), ("ID", "request_id")),
)
FAILURE: Final = Fields[UpstreamFailure](
    "at_ms", "request_id", "status", "reason", "url", "type", "code", "param"
)
_ATTEMPT: Final = Fields[UpstreamFailure](*FAILURE.members, "rejected")


def describe_call(database: Database, request_id: str) -> Told:
    """Tell how each attempt failed, the first one first; for operators, as providers' addresses are."""
    failures = ObservationBook(database).read_failures(request_id, request_id)
    return Told(
        {"failures": [_ATTEMPT.describe(one) for one in failures]},
        [("rejected" if one.rejected else "failure", describe_failure(one)) for one in failures],
    )


def find_refused(database: Database, request_id: str, account_id: int | None) -> Told:
    """Tell of a request that the gateway refused itself. Raises NotFound."""
    refused = ObservationBook(database).find_refused(request_id, account_id=account_id)
    when = f"{format_moment(refused.at_ms)} UTC, before a provider was asked; it cost nothing"
    lines = [
        ("request", refused.request_id),
        ("account", refused.account),
        ("refused", when),
        ("code", refused.code),
        ("model", refused.model or "-"),
    ]
    return Told(REFUSED.describe(refused), lines)


def describe_failure(failure: UpstreamFailure) -> str:
    """Return why the provider failed, its name for the error, and the address."""
    named = (("type", failure.type), ("code", failure.code), ("param", failure.param))
    names = ", ".join(f"{name} {value}" for name, value in named if value)
    reason = f"{failure.reason} ({names})" if names else failure.reason
    return " at ".join(filter(None, (reason, failure.url)))
