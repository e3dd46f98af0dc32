"""The verb `receipt`."""

from __future__ import annotations

from typing import Final

from gateway.base.money import PRICES, format_amount, format_factor, format_tokens
from gateway.base.times import format_moment
from gateway.cli.command import Command
from gateway.cli.output import render_fields
from gateway.cli.verbs import arg, verb
from gateway.extras.observations.describing import REFUSED, describe_failure, explain_refusal
from gateway.extras.observations.records import RefusedView
from gateway.extras.receipts.book import CallDetail, ReceiptBook, describe_call_detail
from gateway.ledger.call_records import OUTCOME_WORDS, Correction, Receipt
from gateway.ledger.records import NotFound

_UNITS: Final = {"request": "each", "web_search": "per thousand"}
"""The units of prices that are not for a million tokens."""


@verb(
    "receipt",
    examples=("receipt req_0123456789abcdef", "receipt req_0123456789abcdef --json"),
    arguments=(arg("id", "ID", "the request id, from the reply's x-request-id"),),
)
def show_receipt(command: Command, id: str) -> None:  # noqa: A002 - the argument's name
    try:
        found = ReceiptBook(command.open_books()).find(id)
    except NotFound as error:
        raise NotFound(f"{error}; `calls` and `refusals --each` list them") from error
    if isinstance(found, RefusedView):
        command.show(REFUSED.describe(found), _page_refused(found))
    else:
        described = describe_call_detail(found, command.currency, for_operator=True)
        command.show(described, page_receipt(found, command.currency))


def page_receipt(detail: CallDetail, currency: str) -> str:
    """Render a receipt: how the request ended, what it used and what it cost."""
    receipt, key = detail.receipt, detail.key
    fields = [
        ("request", receipt.request_id),
        ("account", detail.account),
        ("key", " ".join(part for part in (key.name, key.display, key.id) if part)),
        ("model", receipt.model),
        ("provider", receipt.provider),
        ("attempts", "-" if receipt.attempts is None else str(receipt.attempts)),
        ("ended", _describe_ending(receipt)),
        *(
            ("rejected" if one.rejected else "failure", describe_failure(one))
            for one in detail.failures
        ),
        ("started", f"{format_moment(receipt.started_ms)} UTC"),
        ("took", _describe_times(receipt)),
        ("tokens", format_tokens(receipt.tokens)),
    ]
    fields += ((name.replace("_", " "), f"{n} calls") for name, n in receipt.tool_calls.items())
    fields += [
        ("prices", _describe_prices(receipt, currency)),
        ("price rule", receipt.price.rule or "the model's base price"),
        ("hold", f"{format_amount(receipt.hold_nano)} {currency}"),
        ("cost", _describe_cost(receipt, currency)),
        *(("corrected", _describe_correction(one, currency)) for one in receipt.corrections),
    ]
    return render_fields(fields)


def _page_refused(refused: RefusedView) -> str:
    when = f"{format_moment(refused.at_ms)} UTC, before a provider was asked; it cost nothing"
    fields = [
        ("request", refused.request_id),
        ("account", refused.account),
        ("refused", when),
        ("code", refused.code),
        ("model", refused.model or "-"),
        ("reason", explain_refusal(refused)),
    ]
    if (key := refused.key) is not None:
        fields.append(("key", f"{key.name} {key.display}".strip()))
    return render_fields(fields)


def _describe_ending(receipt: Receipt) -> str:
    ending = OUTCOME_WORDS[receipt.outcome]
    status = "" if receipt.status is None else f", status {receipt.status}"
    by = "" if ending.by is None else f"; ended by: {ending.by}"
    return f"{ending.sentence} ({receipt.outcome}{status}{by})"


def _describe_times(receipt: Receipt) -> str:
    if receipt.ended_ms is None:
        return "-"
    first = "no byte" if receipt.first_byte_ms is None else f"{receipt.first_byte_ms} ms"
    total_ms = max(receipt.ended_ms - receipt.started_ms, 0)
    return f"{total_ms} ms; to the first byte: {first}"


def _describe_prices(receipt: Receipt, currency: str) -> str:
    """Name the prices that are not 0."""
    price = receipt.price.price
    told = [
        f"{name} {format_amount(nano)} {_UNITS.get(name, 'per million')}"
        for name in PRICES
        if (nano := getattr(price, name))
    ]
    told += (f"{name} {format_amount(nano)} per call" for name, nano in price.tools.items())
    if price.reported is not None:
        told.append(f"{format_factor(price.reported)} × the provider's bill, where it tells it")
    return f"{', '.join(told)} ({currency})" if told else "free"


def _describe_cost(receipt: Receipt, currency: str) -> str:
    is_guess = "; estimated, as the provider did not report all usage" if receipt.estimated else ""
    return f"{format_amount(receipt.cost_nano)} {currency} ({receipt.state}{is_guess})"


def _describe_correction(correction: Correction, currency: str) -> str:
    amount = f"{format_amount(correction.amount_nano)} {currency}"
    return f"{amount} on {format_moment(correction.created_ms)} UTC: {correction.note}"
