"""Functions that look for what is wrong, in the books and in what this process serves, as alerts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from gateway.base.money import format_amount
from gateway.base.times import DAY_MS, format_day, format_moment
from gateway.base.usage import MissingUsage
from gateway.config.records import Config
from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.records import Alert, AlertKind
from gateway.extras.observations.book import ObservationBook
from gateway.extras.observations.records import UpstreamView
from gateway.extras.operations import health
from gateway.extras.operations.needs import tell_old_backup
from gateway.ledger.budget_records import Budget
from gateway.ledger.sql.books import Books
from gateway.upstream.routing import Routes

BUDGET_PERCENTS: Final = (100, 80)
"""The parts of a budget that raise alerts, the largest first: a jump over both raises only the
larger."""
BACKUP: Final = "backup"
"""The subject of the kind `old_backup`, which has only one condition."""
TOLD_MS: Final = DAY_MS
"""The age up to which an event still raises an alert: the gateway may not have been running."""
_TOLD_EVENTS: Final[Mapping[str, tuple[AlertKind, str]]] = {
    "account.password": (
        "password_changed",
        "The password of account '{name}' was changed by {actor}{place}.",
    ),
    "account.totp": (
        "totp_changed",
        "The one-time codes of account '{name}' were {done} by {actor}{place}.",
    ),
    "order.refund": (
        "payment_refunded",
        "A payment by card of account '{name}' was given back: {done}.",
    ),
    "order.dispute": (
        "payment_disputed",
        "A payment by card of account '{name}' is disputed, or a dispute of it ended: {done}.",
    ),
    "order.refuse": (
        "payment_refused",
        "What is told of a card payment of '{name}' contradicts its order and is ignored: {done}.",
    ),
}


def find_budgets(budgets: Iterable[Budget], now_ms: int, currency: str) -> Iterator[Alert]:
    """Yield an alert for each budget that is spent to 80 or 100 %: one for each period and percentage."""
    for budget in budgets:
        now = budget.show(now_ms)
        for percent in BUDGET_PERCENTS:
            if now.amount_nano > 0 and now.spent_nano * 100 >= now.amount_nano * percent:
                name = "A key's budget" if now.name is None else f"The budget '{now.name}'"
                text = (
                    f"{name} of {format_amount(now.amount_nano)} {currency} is spent to {percent} %"
                    f" or more. It resets at {format_moment(now.resets_ms)} UTC."
                )
                subject, occurrence = now.name or str(now.id), f"{now.id} {now.resets_ms} {percent}"
                yield Alert("budget", subject, occurrence, text, budget.account_id)
                break


def find_missing_usages(found: Iterable[MissingUsage], now_ms: int) -> Iterator[Alert]:
    """Yield an alert for each provider's model whose replies lacked a usage today: one a UTC day."""
    day = now_ms // DAY_MS
    for one in found:
        if one.last_ms // DAY_MS == day:
            text = (
                f"Provider {one.provider} reports no usage, or an implausible one, for model"
                f" {one.model}: {one.count} replies are charged by an estimate since the start."
            )
            subject = f"{one.provider}/{one.model}"
            yield Alert("missing_usage", subject, format_day(day), text)


@dataclass(slots=True)
class Providers:
    """Texts by the names of providers, and the names of those that this process does not judge."""

    failing: dict[str, str] = field(default_factory=dict)
    working: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)


def judge_providers(books: Books, config: Config) -> Providers:
    """Judge the providers by the calls of all processes; a few failures prove nothing.

    Other processes may serve from the same ledger by another gateway.toml. So that no process ends an alert
    that another one raised, a provider fails here only by a model that was called within the hour, and
    works only if no model fails that any process called within the hour.
    """
    # One snapshot, as the two are compared below.
    with books.snapshot():
        rows = health.list_upstream(books, config)
        seen = [one for one in ObservationBook(books).read_upstream() if one.hour.calls]
    asked: dict[str, list[UpstreamView]] = defaultdict(list)
    for one in seen:
        asked[one.provider].append(one)
    found = Providers(unknown=set(asked))
    for name, group in groupby(rows, key=lambda row: row.provider):
        used = list(group)
        judged = health.judge(used, is_off=config.providers[name].off is not None)
        lately = {one.upstream_model for one in asked[name]}
        mine = [one for one in used if one.upstream_model in lately]
        if judged.state == "failing" and (words := health.find_alarm(mine)):
            found.failing[name] = f"Provider {name} is {words}."
        elif any(health.has_failed_often(one.latest) for one in (*used, *asked[name])):
            found.unknown.add(name)
        elif judged.state == "working":
            found.working[name] = f"Provider {name} works again."
    found.unknown -= found.failing.keys() | found.working.keys()
    return found


def find_key_problems(
    routes: Routes, node: str | None, raised: Collection[tuple[str, str, str]]
) -> Iterator[Alert]:
    """Yield an alert for each key of a provider that this process cannot renew, and its end.

    An end is sent only after its beginning was `raised`.
    """
    place = f", {node}" if node else ""  # each process renews its own keys
    for provider in routes.providers.values():
        for number, key in enumerate(provider.keys):
            begun = f"{key.failed_ms} {number}"
            if key.problem:
                text = f"A key of provider {provider.name} was not renewed: {key.problem}."
                yield Alert("key_not_renewed", provider.name + place, begun, text)
            elif ("key_not_renewed", provider.name + place, begun) in raised:
                text = f"The key of provider {provider.name} is renewed again."
                occurrence, subject = f"{begun} end", provider.name + place
                yield Alert("key_not_renewed", subject, occurrence, text, state="ended")


def find_old_backup(books: Books, backup_days: int) -> dict[str, str]:
    """Return the text by the subject `BACKUP` if the last backup is too old; 0 days turn this off."""
    text = tell_old_backup(books, backup_days)
    return {BACKUP: text} if text else {}


def find_told_events(books: Books, seen: Mapping[AlertKind, int]) -> list[Alert]:
    """Return an alert for each event that raises one, whoever caused it.

    `seen`: the last event of each kind that raised an alert. An alert's occurrence is the event's id.
    """
    found, book = [], AlertBook(books)
    for action, (kind, text) in _TOLD_EVENTS.items():
        events = book.read_events(action, seen.get(kind, 0), books.clock() - TOLD_MS)
        for event in events:
            name = event.account or ""
            # Events of an account may name a person in it as their target; those of orders name the order.
            is_own = event.target is None or not action.startswith("account.")
            who = name if is_own else f"{name}/{event.target}"
            place = f" from {event.address}" if event.address else ""
            message = text.format(name=who, done=event.detail, actor=event.actor, place=place)
            account_id = books.accounts.find_id(name)
            found.append(Alert(kind, name, str(event.id), message, account_id))
    return found
