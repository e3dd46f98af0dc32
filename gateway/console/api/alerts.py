"""Alerts: those to the operator, and the webhook and threshold of the signed-in account."""

from __future__ import annotations

import secrets
from typing import Any, Final

from gateway.admin import observations, views
from gateway.alerts.guard import check_holder_url
from gateway.console.refusals import ConsoleError, invalid_field
from gateway.console.state import Answer, ConsoleRequest, Route, in_books_thread
from gateway.ledger.alert_records import Hook
from gateway.ledger.sql.books.books import Books
from gateway.money import MAX_AMOUNT_NANO, describe_amount

SECRET_BYTES: Final = 32
"""Random bytes of a signing secret: as many as the hash has."""
OWN_LATEST: Final = 5
"""Alerts that a holder is shown: whether the last ones arrived."""


def list_alerts(books: Books, request: ConsoleRequest) -> Answer:
    found = [views.ALERT.describe(one) for one in books.alerts.read_latest(observations.LATEST)]
    channels = request.gateway.config.alerts.channels
    return Answer({"channels": channels, "count": len(found), "alerts": found})


def send_test(books: Books, request: ConsoleRequest) -> Answer:
    channels = request.gateway.config.alerts.channels
    if not channels:
        message = "No webhook and no command is set under [alerts] in gateway.toml."
        raise ConsoleError(409, "alerts_off", message)
    books.alerts.raise_test(None, channels)
    return list_alerts(books, request)


def show_own(books: Books, request: ConsoleRequest) -> Answer:
    return Answer(_describe_own(books, request))


def set_own(books: Books, request: ConsoleRequest) -> Answer:
    """Set webhook and threshold; a new address gets a new secret, which is shown only this once."""
    account_id, fields = request.account.id, request.fields
    url, low_nano = fields.text("webhook") or None, fields.amount_nano("low_balance")
    fields.done()
    if low_nano is not None and not 0 <= low_nano <= MAX_AMOUNT_NANO:
        raise invalid_field("low_balance", "'low_balance' must be 0 or more.")
    _check_url(url, request)
    old = books.alerts.read_hook(account_id)
    secret = old.secret
    if url != old.url:
        secret = None if url is None else f"whsec_{secrets.token_urlsafe(SECRET_BYTES)}"
    books.alerts.set_hook(account_id, Hook(url, secret, low_nano))
    shown = secret if secret != old.secret else None
    return Answer({**_describe_own(books, request), "secret": shown})


def send_own_test(books: Books, request: ConsoleRequest) -> Answer:
    if books.alerts.read_hook(request.account.id).url is None:
        raise ConsoleError(409, "alerts_off", "Set a webhook first.", "webhook")
    books.alerts.raise_test(request.account.id, ())
    return Answer(_describe_own(books, request))


def _check_url(url: str | None, request: ConsoleRequest) -> None:
    config = request.gateway.config.alerts
    if url is None:
        return
    if not config.takes_holders:
        raise invalid_field("webhook", "This gateway sends no alerts to webhooks of accounts.")
    try:
        check_holder_url(url, any_address=config.holder_webhooks == "any")
    except ValueError as error:
        raise invalid_field("webhook", f"'webhook' {error}.") from error


def _describe_own(books: Books, request: ConsoleRequest) -> dict[str, Any]:
    account_id = request.account.id
    hook = books.alerts.read_hook(account_id)
    found = [views.ALERT.describe(one) for one in books.alerts.read_latest(OWN_LATEST, account_id)]
    return {
        "available": request.gateway.config.alerts.takes_holders,
        "webhook": hook.url,
        **describe_amount("low_balance", hook.low_balance_nano),
        "alerts": found,
    }


ROUTES: Final = (
    Route("GET", "/console/api/alerts", "operator", in_books_thread(list_alerts)),
    Route("POST", "/console/api/alerts/test", "operator", in_books_thread(send_test)),
    Route("GET", "/console/api/settings/alerts", "any", in_books_thread(show_own)),
    Route("POST", "/console/api/settings/alerts", "any", in_books_thread(set_own)),
    Route("POST", "/console/api/settings/alerts/test", "any", in_books_thread(send_own_test)),
)
