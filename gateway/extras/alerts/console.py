"""Alerts in the console: operators see the latest; each account sets its own webhook and threshold."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from gateway.base.money import MAX_AMOUNT_NANO, describe_amount
from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.channels import SECRET_BYTES, check_holder_url
from gateway.extras.alerts.records import ALERT, Hook
from gateway.extras.alerts.settings import Alerts
from gateway.extras.console.additions import Addition
from gateway.extras.console.errors import ConsoleError, invalid_field
from gateway.extras.console.routes import Answer, ConsoleRequest, route
from gateway.extras.operations import health
from gateway.ledger.sql.books import Books


def _find_low_balance_nano(books: Books, account_id: int) -> int | None:
    return AlertBook(books).read_hook(account_id).low_balance_nano


ADDITION: Final = Addition(
    scripts=(Path(__file__).with_name("static"),),
    parts=dict.fromkeys(("health", "settings"), "alerts"),
    find_low_balance_nano=_find_low_balance_nano,
)

OWN_LATEST: Final = 5
"""The latest alerts that a holder is shown: enough to see whether they arrive."""


@route("GET", "/alerts", "operator")
def list_alerts(books: Books, request: ConsoleRequest) -> Answer:
    latest = AlertBook(books).read_latest(health.LATEST)
    found = [ALERT.describe(one) for one in latest]
    channels = request.gateway.config.find(Alerts).channels
    return Answer({"channels": channels, "count": len(found), "alerts": found})


@route("POST", "/alerts/test", "operator")
def send_test(books: Books, request: ConsoleRequest) -> Answer:
    channels = request.gateway.config.find(Alerts).channels
    if not channels:
        message = "No webhook and no command is set under [alerts] in gateway.toml."
        raise ConsoleError(409, "alerts_off", message)
    AlertBook(books).raise_test(None, channels)
    return list_alerts(books, request)


@route("GET", "/settings/alerts", "any")
def show_own_alerts(books: Books, request: ConsoleRequest) -> Answer:
    return Answer(_describe_own_alerts(books, request))


@route("POST", "/settings/alerts", "any")
def set_own_alerts(books: Books, request: ConsoleRequest) -> Answer:
    """Set webhook and threshold; a new address gets a new secret, which is shown only this once."""
    account_id = request.account.id
    with request.fields as fields:
        url, low_nano = fields.text("webhook") or None, fields.amount_nano("low_balance")
    if low_nano is not None and not 0 <= low_nano <= MAX_AMOUNT_NANO:
        raise invalid_field("low_balance", "'low_balance' must be 0 or more.")
    _check_url(url, request)
    old = AlertBook(books).read_hook(account_id)
    secret = old.secret
    if url != old.url:
        secret = None if url is None else f"whsec_{secrets.token_urlsafe(SECRET_BYTES)}"
    AlertBook(books).set_hook(account_id, Hook(url, secret, low_nano))
    shown = secret if secret != old.secret else None
    return Answer({**_describe_own_alerts(books, request), "secret": shown})


@route("POST", "/settings/alerts/test", "any")
def send_own_test(books: Books, request: ConsoleRequest) -> Answer:
    if AlertBook(books).read_hook(request.account.id).url is None:
        raise ConsoleError(409, "alerts_off", "Set a webhook first.", "webhook")
    AlertBook(books).raise_test(request.account.id, ())
    return show_own_alerts(books, request)


def _check_url(url: str | None, request: ConsoleRequest) -> None:
    config = request.gateway.config.find(Alerts)
    if url is None:
        return
    if not config.takes_holders:
        raise invalid_field("webhook", "This gateway sends no alerts to webhooks of accounts.")
    try:
        check_holder_url(url, any_address=config.holder_webhooks == "any")
    except ValueError as error:
        raise invalid_field("webhook", f"'webhook' {error}.") from error


def _describe_own_alerts(books: Books, request: ConsoleRequest) -> dict[str, object]:
    account_id = request.account.id
    hook = AlertBook(books).read_hook(account_id)
    latest = AlertBook(books).read_latest(OWN_LATEST, account_id)
    return {
        "available": request.gateway.config.find(Alerts).takes_holders,
        "webhook": hook.url,
        **describe_amount("low_balance", hook.low_balance_nano),
        "alerts": [ALERT.describe(one) for one in latest],
    }
