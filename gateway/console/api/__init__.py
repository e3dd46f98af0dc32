"""The routes of the console's API, by subject. API.md has them all.

session     sign in, sign out, who is signed in
overview    the balance and how long it lasts, the last 30 days, notices
keys        the signed-in account's keys
usage       its usage by day, hour, model or key
billing     its balance and entries
activity    its requests to models
settings    its password and sessions
models      the models and their prices
accounts    operators: all accounts
codes       operators: top-up codes; everybody: redeem one
operations  operators: providers, health, audit, the log of events
"""

from __future__ import annotations

from typing import Final

from gateway.console.api import (
    accounts,
    activity,
    billing,
    codes,
    keys,
    models,
    operations,
    overview,
    session,
    settings,
    usage,
)
from gateway.console.state import Route

_OWN: Final = (session, overview, keys, usage, billing, activity, settings, models)
_OPERATORS: Final = (accounts, codes, operations)

ROUTES: Final[tuple[Route, ...]] = tuple(
    route for module in (*_OWN, *_OPERATORS) for route in module.ROUTES
)
