"""The handlers of the console's API, by subject. docs/console-api.md has all routes.

session     sign in, sign out, who is signed in; the people who sign in to an account
overview    the overview of an account, and that of the gateway; operators: what providers bill, and
            the margin
keys        the signed-in account's keys, and budgets that keys share; operators: tokens of scripts
usage       one's requests to models; usage by day, hour, model or key; the models
settings    one's password, one-time codes and sessions; alerts
billing     the balance and its entries, redeeming codes; credit bought by card: orders, payment pages,
            receipts; operators: entries, orders and statements of all
accounts    operators: accounts, and top-up codes
operations  operators: health, how providers answer, refusals, audit, the log of events
"""

from __future__ import annotations

from typing import Final

from gateway.console.api import (  # noqa: F401 - their decorators register the routes
    accounts,
    billing,
    keys,
    operations,
    overview,
    session,
    settings,
    usage,
)
from gateway.console.routes import REGISTERED, Route

ROUTES: Final[tuple[Route, ...]] = tuple(REGISTERED)
