"""The fields of calls, of sums of usage and costs, and of a statement's lines; the latest rows as a command shows them.

`admin.fields` tells how to use the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

from gateway.admin.fields import Fields
from gateway.extras.reports.records import (
    CallView,
    OutcomeFilter,
    ProviderCosts,
    StatementLine,
    Usage,
)
from gateway.ledger.call_records import OUTCOME_WORDS

if TYPE_CHECKING:
    from gateway.cli.command import Command

Row = TypeVar("Row")

OUTCOMES: Final[dict[OutcomeFilter, str]] = {
    "failed": "any failure",
    **{outcome: words.label for outcome, words in OUTCOME_WORDS.items()},
}
"""The filters of a list of calls, in words."""


def _describe_call_end(call: CallView) -> str:
    status = "" if call.status is None else f" {call.status}"
    return f"{OUTCOME_WORDS[call.outcome].label}{status}"


def _describe_duration(call: CallView) -> str:
    """Return how long a call took; nothing for interrupted calls, which ended at the next start."""
    is_known = call.total_ms is not None and call.outcome != "interrupted"
    return str(call.total_ms) if is_known else "-"


CALL: Final = Fields[CallView](
    *("request_id", "account", "started_ms", "ended_ms", "model", "provider", ("key", "key_id")),
    *("key_name", "key_display", "state", "outcome"),
    ("outcome_label", lambda call: OUTCOME_WORDS[call.outcome].label),
    *("status", "stream", "tokens", "cost_nano", "estimated", "first_byte_ms", "total_ms"),
    table=(
        ("ID", "request_id"),
        *("started_ms", "account"),
        ("KEY", lambda call: call.key_name or call.key_display),
        *("model", "provider"),
        ("ENDED", _describe_call_end),
        (">TOOK MS", _describe_duration),
        "cost_nano",
    ),
)
USAGE: Final = Fields[Usage](
    *("requests", "tokens", "cost_nano"),
    table=(
        (">REQUESTS", "requests"),
        (">INPUT", "tokens.all_input"),
        (">OF IT CACHED", "tokens.cached_input"),
        (">OF IT WRITTEN", "tokens.cache_write"),
        (">OUTPUT", "tokens.output"),
        (">CHARGED {}", "cost_nano"),
    ),
)


def _if_known(requests: str, amount: str) -> Callable[[ProviderCosts], int | None]:
    """Make a function that returns an amount, or None if the amount is known of no request."""
    find, count = attrgetter(amount), attrgetter(requests)
    return lambda costs: find(costs) if count(costs) else None


def _describe_percent(costs: ProviderCosts) -> str:
    """Return the margin in percent of what was charged where the cost is known."""
    return f"{100 * costs.margin_nano / costs.charged_nano:.1f}" if costs.charged_nano else "-"


COSTS: Final = Fields[ProviderCosts](
    ("charged_with_cost_nano", _if_known("known", "charged_nano")),
    ("provider_cost_nano", _if_known("known", "provider_cost_nano")),
    ("margin_nano", _if_known("known", "margin_nano")),
    ("costed_requests", "known"),
    ("reported_cost_nano", _if_known("reported", "reported_nano")),
    ("reported_excess_nano", _if_known("compared", "difference_nano")),
    ("reported_requests", "reported"),
    table=(
        (">OF IT WITH COST", "charged_with_cost_nano"),
        (">PROVIDER COST", "provider_cost_nano"),
        (">MARGIN", "margin_nano"),
        (">%", _describe_percent),
        (">REPORTED", "reported_cost_nano"),
        (">EXCESS", "reported_excess_nano"),
    ),
)
"""The bills of providers, for operators alone; null where they are unknown."""


_LINE: Final = (
    *("account", "opening_nano", "credit_nano", "codes_nano", "cards_nano"),
    *("charges_nano", "corrections_nano", "closing_nano"),
)
STATEMENT: Final = Fields[StatementLine](*_LINE, table=_LINE)


def show_latest(
    command: Command, what: str, rows: Sequence[Row], fields: Fields[Row], limit: int
) -> None:
    """Write as many rows as `--limit` allows, and say so if there are more."""
    shown = rows[:limit]
    command.show_list(shown, fields)
    if len(rows) > len(shown):
        several = f"{what.removesuffix('y')}ies" if what.endswith("y") else f"{what}s"
        these = (
            f"These are the latest {limit} {several}" if limit > 1 else f"This is the latest {what}"
        )
        command.say(f"{these}; --limit N shows more.")
