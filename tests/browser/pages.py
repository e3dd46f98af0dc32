"""The addresses and titles of the pages."""

from __future__ import annotations

from typing import Final

HOLDER_PAGES: Final = {
    "": "Overview",
    "keys": "Keys",
    "keys?status=all": "Keys",
    "usage": "Usage",
    "usage?by=hour&show=tokens": "Usage",
    "usage?by=model&show=requests": "Usage",
    "usage?by=key": "Usage",
    "billing": "Billing",
    "billing?kind=credit": "Billing",
    "activity": "Activity",
    "activity?request_id=nothing": "Activity",
    "activity/nothing": "Call",
    "models": "Models",
    "settings": "Settings",
    "nowhere": "Not found",
}
OPERATOR_PAGES: Final = {
    "activity": "Activity",
    "activity?account=holder&outcome=failed&status=502": "Activity",
    "accounts": "Accounts",
    "accounts?sort=spent_today": "Accounts",
    "accounts?search=old": "Accounts",
    "accounts/holder": "holder",
    "costs": "Costs",
    "costs?from=2026-01-01&to=2026-01-02": "Costs",
    "codes": "Codes",
    "tokens": "Tokens",
    "providers": "Providers",
    "refusals": "Refusals",
    "refusals?period=today&account=nobody": "Refusals",
    "health": "Health",
    "audit": "Audit",
}
OUTSIDE: Final = {"signin": "Sign in", "signin#token=gwl_example": "Sign in"}
