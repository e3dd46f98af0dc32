"""The verbs for requests to models: a list of calls, and the receipt of one."""

from __future__ import annotations

from typing import Final

from gateway.admin import views
from gateway.cli.command import Command
from gateway.cli.observations import describe_failure
from gateway.cli.output import render_fields
from gateway.cli.tables import Columns
from gateway.ledger import ENDINGS, CallDetail, CallFilter, CallView, Correction, Receipt
from gateway.money import PRICES, format_amount, format_factor, format_tokens
from gateway.times import format_moment

_UNITS: Final = {"request": "each", "web_search": "per thousand"}
"""The units of prices that are not for a million tokens."""


def _describe_end(call: CallView) -> str:
    status = "" if call.status is None else f" {call.status}"
    return f"{ENDINGS[call.outcome].label}{status}"


CALLS: Final[Columns[CallView]] = (
    ("ID", lambda call: call.request_id),
    ("STARTED UTC", lambda call: format_moment(call.started_ms)),
    ("ACCOUNT", lambda call: call.account),
    ("KEY", lambda call: call.key_name or call.key_display),
    ("MODEL", lambda call: call.model),
    ("PROVIDER", lambda call: call.provider),
    ("ENDED", _describe_end),
    ("COST {}", lambda call: format_amount(call.cost_nano)),
)


def list_calls(command: Command) -> None:
    options = command.options
    with command.open_books() as books:
        chosen = CallFilter(
            None if options.account is None else books.accounts.find_id(options.account),
            key_id=options.key_id,
            model=options.model,
            provider=options.provider,
            outcome=options.outcome,
            status=options.http_status,
            since_ms=options.since,
            until_ms=options.until,
        )
        found = books.calls.read_page(chosen, None, options.limit + 1)
    command.show_latest("calls", found, views.describe_call, CALLS)


def show_receipt(command: Command) -> None:
    with command.open_books() as books:
        detail = books.calls.read_detail(command.options.id)
    described = views.describe_call_detail(detail, command.currency, for_operator=True)
    command.show(described, page_receipt(detail, command.currency))


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
        *(("failure", describe_failure(one)) for one in detail.failures),
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


def _describe_ending(receipt: Receipt) -> str:
    ending = ENDINGS[receipt.outcome]
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
