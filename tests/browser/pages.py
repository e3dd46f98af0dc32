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
    "models": "Models",
    "settings": "Settings",
    "nowhere": "Not found",
}
OPERATOR_PAGES: Final = {
    "accounts": "Accounts",
    "accounts?search=old": "Accounts",
    "accounts/holder": "holder",
    "codes": "Codes",
    "providers": "Providers",
    "health": "Health",
    "audit": "Audit",
}
OUTSIDE: Final = {"signin": "Sign in", "signin#token=gwl_example": "Sign in"}
