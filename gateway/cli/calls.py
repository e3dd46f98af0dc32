"""The verbs for requests to models: a list of calls, the receipt of one, and sums of usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, get_args

from gateway.admin import accounts, codes, views
from gateway.cli import arguments as read
from gateway.cli.alerts import describe_failure
from gateway.cli.arguments import Column, Columns, render_fields, render_table
from gateway.cli.command import Command
from gateway.cli.verbs import ACCOUNT, JSON, LIMIT, SINCE, UNTIL, arg, choice, flag, verb
from gateway.ledger.call_records import (
    ENDINGS,
    CallDetail,
    CallFilter,
    CallView,
    Correction,
    OutcomeFilter,
    ProviderCosts,
    Receipt,
    Usage,
    UsageGroup,
    sum_costs,
    sum_usage,
)
from gateway.ledger.sql.books.books import Books
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


@verb(
    "calls",
    "calls --outcome failed --since yesterday",
    "calls --account alice --status 502 --limit 5 --json",
    arguments=(
        ACCOUNT,
        arg("--key", "ID", read.word, "only this key, by its id"),
        arg("--model", "M", read.word, "only this model"),
        arg("--provider", "P", read.word, "only this provider"),
        choice("--outcome", ("failed", *ENDINGS), "only calls that ended so"),
        arg("--status", "N", read.count, "only this status of the reply"),
        SINCE,
        UNTIL,
        LIMIT,
        JSON,
    ),
)
def list_calls(
    command: Command,
    *,
    account: str | None,
    key: str | None,
    model: str | None,
    provider: str | None,
    outcome: OutcomeFilter | None,
    status: int | None,
    since: int | None,
    until: int | None,
    limit: int,
) -> None:
    with command.open_books() as books:
        chosen = CallFilter(
            None if account is None else books.accounts.find_id(account),
            key_id=key,
            model=model,
            provider=provider,
            outcome=outcome,
            status=status,
            since_ms=since,
            until_ms=until,
        )
        found = books.calls.read_page(chosen, None, limit + 1)
    command.show_latest("calls", found, views.describe_call, CALLS, limit)


@verb(
    "receipt",
    "receipt req_0123456789abcdef",
    "receipt req_0123456789abcdef --json",
    arguments=(
        arg("id", "ID", read.word, "the request id, from the reply's x-request-id"),
        JSON,
    ),
)
def show_receipt(command: Command, id: str) -> None:  # noqa: A002 - the argument's name
    with command.open_books() as books:
        detail = books.calls.read_detail(id)
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


@verb(
    "usage",
    "usage --since 7d",
    "usage --by account --since today",
    "usage --account alice --by model --since yesterday",
    "usage --since 2026-11-01 --until 2026-11-30 --csv > usage.csv",
    arguments=(
        ACCOUNT,
        choice("--by", get_args(UsageGroup), "one line for each", default="day"),
        SINCE,
        UNTIL,
    ),
    either=(JSON, flag("--csv", "write CSV to stdout")),
)
def usage(
    command: Command,
    account: str | None,
    by: UsageGroup,
    since: int | None,
    until: int | None,
    *,
    csv: bool,
) -> None:
    with command.open_books() as books:
        rows = accounts.usage_with_costs(
            books, account=account, by=by, since_ms=since, until_ms=until
        )
        named = _name_groups(books, by, [group for group, *_ in rows])
    lines = [(names, sums, costs) for names, (_, sums, costs) in zip(named, rows, strict=True)]
    table = csv_usage if csv else partial(table_usage, currency=command.currency)
    described = [
        {**names, **views.describe_usage(sums), **views.describe_costs(costs)}
        for names, sums, costs in lines
    ]
    command.show(described, table(lines, by))


def _name_groups(books: Books, by: UsageGroup, groups: Sequence[str]) -> list[dict[str, str]]:
    """Return the columns that name each group: a key's account and name too."""
    if by != "key":
        return [{by: group} for group in groups]
    keys = {key.id: key for key in books.keys.read_all()}
    return [
        {by: group, "account": keys[group].account, "key_name": keys[group].terms.name}
        for group in groups
    ]


UsageLine = tuple[Mapping[str, str], Usage, ProviderCosts]
"""The columns that name a group of usage, its sums, and what providers bill for it."""
_GROUP_TITLES: Final[Mapping[UsageGroup, tuple[str, ...]]] = {
    "day": ("DAY UTC",),
    "model": ("MODEL",),
    "key": ("KEY", "ACCOUNT", "NAME"),
    "account": ("ACCOUNT",),
}
_COST_TITLES: Final = ("WITH COST", "PROVIDER COST", "MARGIN", "REPORTED", "EXCESS")


def table_usage(rows: Sequence[UsageLine], by: UsageGroup, currency: str) -> str:
    """Render usage by group, with a total of several; with providers' costs if any are known."""
    titles = ["REQUESTS", "INPUT", "OF IT CACHED", "OF IT WRITTEN", "OUTPUT", f"COST {currency}"]
    if has_costs := any(any(costs) for *_, costs in rows):
        titles += _COST_TITLES
    groups = _GROUP_TITLES[by]
    columns = (
        *(Column(title) for title in groups),
        *(Column(title, right=True) for title in titles),
    )
    lines = [
        (
            *(name or "-" for name in names.values()),
            *_figures(sums),
            *(_cells(costs) if has_costs else ()),
        )
        for names, sums, costs in rows
    ]
    if len(rows) > 1:
        total = sum_usage(sums for _, sums, _ in rows)
        costs = sum_costs(costs for *_, costs in rows)
        lines.append(
            (
                *("total", *[""] * (len(groups) - 1)),
                *_figures(total),
                *(_cells(costs) if has_costs else ()),
            )
        )
    return render_table(columns, lines)


def _figures(usage: Usage) -> tuple[str, ...]:
    """Return the cells of a sum; all input is one figure, as in the vendors' SDKs."""
    tokens = usage.tokens
    counts = (tokens.all_input, tokens.cached_input, tokens.cache_write, tokens.output)
    return (str(usage.requests), *map(str, counts), format_amount(usage.cost_nano))


def _cells(costs: ProviderCosts) -> tuple[str, ...]:
    """Describe what providers bill; "-" where it is not known."""
    amounts = (
        (costs.known, costs.cost_nano),
        (costs.known, costs.margin_nano),
        (costs.reported, costs.reported_nano),
        (costs.compared, costs.difference_nano),
    )
    shown = (format_amount(nano) if requests else "-" for requests, nano in amounts)
    return (str(costs.known), *shown)


def csv_usage(rows: Sequence[UsageLine], by: UsageGroup) -> str:
    names = ("key", "account", "key_name") if by == "key" else (by,)
    empty = views.describe_usage(Usage()) | views.describe_costs(ProviderCosts())
    described = [
        (names, views.describe_usage(sums) | views.describe_costs(costs))
        for names, sums, costs in rows
    ]
    return codes.render_csv(
        (*names, *empty),
        [
            (*names.values(), *("" if one is None else str(one) for one in members.values()))
            for names, members in described
        ],
    )
