"""The handlers of the console's API, by subject. docs/console-api.md has all routes.

session     sign in, sign out, who is signed in
overview    the overview of an account, and that of the gateway
activity    one's requests to models
keys        the signed-in account's keys, and budgets that keys share; operators: tokens of scripts
usage       usage by day, hour, model or key; the models
costs       operators: what providers bill, and the margin
settings    one's password, one-time codes and sessions; alerts
billing     the balance and its entries, redeeming codes; operators: entries and statements of all
accounts    operators: accounts, and top-up codes
orders      credit bought by card: orders, payment pages, receipts
operations  operators: health, how providers answer, refusals, audit, the log of events
"""

from __future__ import annotations

from typing import Final

from gateway.console.api import (  # noqa: F401 - their decorators register the routes
    accounts,
    activity,
    billing,
    costs,
    keys,
    operations,
    orders,
    overview,
    session,
    settings,
    usage,
)
from gateway.console.routes import REGISTERED, Route

ROUTES: Final[tuple[Route, ...]] = tuple(REGISTERED)
