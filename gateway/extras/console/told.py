"""The console's routes, those of other extras among them, for the reference of the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.extras.console import dispatch  # noqa: F401 - it imports all handlers
from gateway.extras.console.additions import find_additions
from gateway.extras.console.routes import ROUTES, Role, is_idempotent
from gateway.extras.reference.records import Access, Route

_ACCESS: Final[dict[Role, Access]] = {"none": "open", "any": "session", "operator": "operator"}


def tell_routes() -> Sequence[Route]:
    find_additions()  # makes the routes of others
    return [
        Route(
            method=one.method,
            path=one.path,
            access=_ACCESS[one.role],
            tokens=frozenset(one.tokens),
            idempotent=is_idempotent(one),
        )
        for one in ROUTES
    ]
