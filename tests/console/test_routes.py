"""The console's routes are those of its contract."""

from __future__ import annotations

import re
from typing import Final, get_args

from gateway.console.api import ROUTES
from gateway.ledger.signin_records import TokenRole
from tests import ROOT
from tests.console.kit import API

TEXT: Final = (ROOT / "gateway/docs/console-api.md").read_text(encoding="utf-8")
OPERATORS: Final = (
    "accounts",
    "costs",
    "codes",
    "tokens",
    "providers",
    "refusals",
    "health",
    "audit",
    "alerts",
)
"""First path segments of operators' routes; all other routes are about one's own account."""
OPEN: Final = {
    ("POST", f"{API}/session"),
    ("POST", f"{API}/session/link"),
    ("DELETE", f"{API}/session"),
}


def test_the_routes_are_those_of_the_contract() -> None:
    told = re.findall(
        r"\b(GET|POST|PATCH|DELETE)\b(?: \*\*\[I\]\*\*)?[ |]*`(/console/api/[^`? ]*)",
        TEXT.partition("<!-- tokens -->")[0],
    )
    assert {(route.method, route.path) for route in ROUTES} == set(told)
    assert len(ROUTES) == len(told)


def describe_tokens() -> str:
    """The table of the routes that tokens may call as the contract must have it."""
    roles = get_args(TokenRole)
    lines = [f"| route | {' | '.join(roles)} |", "|---|" + "---|" * len(roles)]
    for route in sorted(ROUTES, key=lambda one: (one.path, one.method)):
        if route.tokens:
            cells = " | ".join("yes" if role in route.tokens else "" for role in roles)
            lines.append(f"| {route.method} `{route.path}` | {cells} |")
    return "\n".join(lines)


def test_the_tokens_of_each_route_are_those_of_the_contract() -> None:
    match = re.search(r"<!-- tokens -->\n(.*?)\n<!-- /tokens -->", TEXT, re.DOTALL)
    assert match
    assert match[1] == describe_tokens()


def test_tokens_reach_what_the_operator_manages_and_no_way_to_sign_in() -> None:
    closed = ("tokens", "session", "sessions", "settings", "signin-link", "end-sessions")
    for route in ROUTES:
        if route.tokens:
            assert route.role == "operator" or route.path.endswith("/keys/{id}/revoke")
            assert not {*closed} & {*route.path.split("/")}
            assert "operator" in route.tokens
        assert "read" not in route.tokens or route.method == "GET"


def test_roles_are_those_of_the_contract() -> None:
    for route in ROUTES:
        subject = route.path.removeprefix(f"{API}/").split("/")[0]
        wanted = "operator" if subject in OPERATORS else "any"
        assert route.role == ("none" if (route.method, route.path) in OPEN else wanted), route.path
