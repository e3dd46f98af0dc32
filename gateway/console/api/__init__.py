"""The routes of the console's API, by subject. docs/console-api.md has them all.

session     sign in, sign out, who is signed in
overview    the balance and how long it lasts, the last 30 days, notices
keys        the signed-in account's keys
budgets     budgets that keys share
usage       its usage by day, hour, model or key
billing     its balance and entries
activity    its requests to models
settings    its password and sessions
models      the models and their prices
accounts    operators: all accounts
costs       operators: what providers bill for the models of all accounts
codes       operators: top-up codes; everybody: redeem one
tokens      operators: tokens of scripts
observations  operators: how providers answer, and what was refused
alerts      operators: the latest alerts; everybody: their own webhook and threshold
operations  operators: health, audit, the log of events
"""

from __future__ import annotations

from typing import Final

from gateway.console.api import (
    accounts,
    activity,
    alerts,
    billing,
    budgets,
    codes,
    costs,
    keys,
    models,
    observations,
    operations,
    overview,
    session,
    settings,
    tokens,
    usage,
)
from gateway.console.state import Route

_OWN: Final = (
    *(session, overview, keys, budgets, usage, billing, activity, settings, alerts, models),
)
_OPERATORS: Final = (accounts, costs, codes, tokens, observations, operations)

ROUTES: Final[tuple[Route, ...]] = tuple(
    route for module in (*_OWN, *_OPERATORS) for route in module.ROUTES
)
