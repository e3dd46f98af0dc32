"""The console's routes are those of its contract."""

from __future__ import annotations

import re
from typing import Final

from gateway.console.api import ROUTES
from tests import ROOT
from tests.console.kit import API

CONTRACT: Final = ROOT / "gateway/console/API.md"
OPERATORS: Final = ("accounts", "codes", "providers", "health", "audit")
"""First path segments of operators' routes; all other routes are about one's own account."""
OPEN: Final = {
    ("POST", f"{API}/session"),
    ("POST", f"{API}/session/link"),
    ("DELETE", f"{API}/session"),
}


def test_the_routes_are_those_of_the_contract() -> None:
    text = CONTRACT.read_text(encoding="utf-8")
    told = re.findall(
        r"\b(GET|POST|PATCH|DELETE)\b(?: \*\*\[I\]\*\*)?[ |]*`(/console/api/[^`? ]*)", text
    )
    assert {(route.method, route.path) for route in ROUTES} == set(told)
    assert len(ROUTES) == len(told)


def test_roles_are_those_of_the_contract() -> None:
    for route in ROUTES:
        subject = route.path.removeprefix(f"{API}/").split("/")[0]
        wanted = "operator" if subject in OPERATORS else "any"
        assert route.role == ("none" if (route.method, route.path) in OPEN else wanted), route.path
