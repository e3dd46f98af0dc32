"""What the holder came for: the balance, how long it lasts, the last days, the latest calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gateway.config import Billing
from gateway.console.state import Answer, Route, Visit, on_desk
from gateway.console.views import SPENT_DAYS, describe_call, describe_sum, sum_usage
from gateway.ledger.books import Books
from gateway.ledger.records import AccountView
from gateway.ledger.usage_records import KeyLabel, OverviewView, Usage
from gateway.money import format_amount
from gateway.times import DAY_MS, format_day, format_moment
from gateway.views import money

WEEK: Final = 7
CALLS: Final = 10
SOON_MS: Final = 7 * DAY_MS
"""A key that ends within this is worth a word."""

LINKS_ONLY: Final = (
    "You have no password yet, so you need a new sign-in link each time. Set one under Settings."
)
SUSPENDED: Final = (
    "This account is suspended: its calls are refused. Ask the operator of this gateway to resume"
    " it."
)
EMPTY: Final = (
    "The balance is used up: calls are refused until it is positive. Redeem a code under Billing,"
    " or ask the operator of this gateway for credit."
)


def show_overview(books: Books, visit: Visit) -> Answer:
    today = books.clock() // DAY_MS
    with books.snapshot():
        account = books.account(visit.account.name)
        view = books.overview(account.id, first_day=today - SPENT_DAYS + 1, soon_ms=SOON_MS)
        calls = books.latest_calls(account.id, CALLS)
        has_password = books.find_password_hash(account.name) is not None
    available_nano = account.balance_nano - account.held_nano
    spent_7d_nano = _sum_days(view, today, WEEK)
    billing = visit.gateway.config.billing
    notices = _find_notices(account, view, billing, has_password=has_password)
    body = {
        **money("balance", account.balance_nano),
        **money("held", account.held_nano),
        **money("available", available_nano),
        "currency": billing.currency,
        **money("spent_today", _sum_days(view, today, 1)),
        **money("spent_7d", spent_7d_nano),
        **money("spent_30d", _sum_days(view, today, SPENT_DAYS)),
        "days_left": count_days_left(account.balance_nano, available_nano, spent_7d_nano),
        "days": [
            {"day": format_day(day), **describe_sum(view.days.get(day, Usage()))}
            for day in range(today - SPENT_DAYS + 1, today + 1)
        ],
        "calls": [describe_call(call) for call in calls],
        "keys": view.active_keys,
        "first_key": view.has_key,
        "first_call": view.has_call,
        "notices": [{"code": code, "message": message} for code, message in notices],
    }
    return Answer(body)


def count_days_left(balance_nano: int, available_nano: int, spent_week_nano: int) -> int | None:
    """Whole days that what is available lasts at the last week's rate; None where nobody knows."""
    if spent_week_nano <= 0 or balance_nano <= 0:
        return None
    return max(available_nano, 0) * WEEK // spent_week_nano


def _sum_days(view: OverviewView, today: int, count: int) -> int:
    return sum_usage(
        usage for day, usage in view.days.items() if today - count < day <= today
    ).cost_nano


def _find_notices(
    account: AccountView, view: OverviewView, billing: Billing, *, has_password: bool
) -> Iterator[tuple[str, str]]:
    """Codes and sentences that say what to do; the gravest first."""
    low_nano = billing.low_balance_nano
    if account.suspended:
        yield "suspended", SUSPENDED
    if account.balance_nano <= 0:
        yield "balance_empty", EMPTY
    elif low_nano is not None and account.balance_nano < low_nano:
        low = f"{format_amount(low_nano)} {billing.currency}"
        yield (
            "balance_low",
            f"The balance is below {low}. Top it up before calls are refused.",
        )
    if view.expiring:
        yield "key_expiring", _describe_expiring(view.expiring)
    if not has_password:
        yield "no_password", LINKS_ONLY


def _describe_expiring(expiring: Sequence[tuple[KeyLabel, int]]) -> str:
    """Of many keys the first: the list of keys shows the others."""
    key, expires_ms = expiring[0]
    name = f"'{key.name}' ({key.display})" if key.name else key.display
    moment = f"on {format_moment(expires_ms)} UTC"
    advice = "Give it a later end, or make a new key, before its callers are refused."
    if len(expiring) == 1:
        return f"The key {name} expires {moment}. {advice}"
    return f"{len(expiring)} keys expire within 7 days, first {name} {moment}. {advice}"


ROUTES: Final = (Route("GET", "/console/api/overview", "any", on_desk(show_overview)),)
