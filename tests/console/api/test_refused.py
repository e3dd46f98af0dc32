"""One table for all routes: bodies and queries that are refused by their field, and change nothing."""

from __future__ import annotations

from typing import Any, Final

from tests.console.kit import API, HOLDER, OPERATOR, Console
from tests.support.rows import told_together

TEAM: Final = {"name": "team", "amount": "100", "period": "month"}
MOVE: Final = {"amount": "1", "note": "x"}
SHARED: Final = {"budget_amount": "5", "budget_period": "day"}
LONG: Final = "x" * 101
HIDING: Final = (
    *("abc\u202edef", "abc\u2066def", "a\u200bb", "a\nb", "a\x1b[31mb", "a\0b", "x" * 10_000),
)
"""Texts that move the cursor or the direction, have no width, or fill the screen."""
BEYOND_DATES: Final = "9999-12-31T23:59:59-23:00"
"""A time in the year 10000 in UTC, although its text says 9999."""
TERMS: Final[dict[str, list[object]]] = {
    "name": [LONG, "a\u202eb", 5],
    "cap": ["0", "-1", 5, "1e3", "0.0000000001"],
    "expires": ["2001-01-01", "2999-01-01T00:00:00", BEYOND_DATES],
    "models": [[], [""], "demo/echo", [f"m{number}" for number in range(101)]],
    "requests_per_minute": [601, 0],
    "concurrency": [51],
    "budget_id": ["1"],
}
LIMITS: Final[dict[str, list[object]]] = {
    "models": [[], ["x" * 201], [f"{n:02}{'é' * 198}" for n in range(11)], "all"],
    "concurrency": [-1, "1"],
    "tokens_per_minute": [10**10],
    "operator": [1],
}

Case = tuple[str, str, object, str]
"""Method and path, the body, and the field that is to blame."""


def spoil(method: str, path: str, right: dict[str, Any], *wrong: tuple[str, object]) -> list[Case]:
    """Make cases of a body that is right but for one field; a value of None stands for its absence."""
    return [(method, path, {**right, name: value}, name) for name, value in wrong]


def each_value(method: str, path: str, wrong: dict[str, list[object]]) -> list[Case]:
    return [(method, path, {name: one}, name) for name, values in wrong.items() for one in values]


HOLDERS: Final[list[Case]] = [
    *each_value("POST", "/keys", TERMS),
    *each_value("PATCH", "/keys/{key}", TERMS),
    ("POST", "/keys", {"budget_amount": "5"}, "budget_period"),
    ("POST", "/keys", {"budget_period": "day"}, "budget_amount"),
    *spoil("POST", "/keys", SHARED, ("budget_amount", "0"), ("budget_period", "year")),
    *spoil("POST", "/keys", SHARED, ("budget_id", 1)),
    *each_value("POST", "/keys/{key}/rotate", {"grace_seconds": [-1, 604_801, "3600", None, 1.5]}),
    *spoil("POST", "/budgets", TEAM, ("name", ""), ("name", "10/day"), ("amount", "0")),
    *spoil("POST", "/budgets", TEAM, ("amount", "x"), ("amount", None), ("period", "year")),
    *spoil("POST", "/budgets", TEAM, ("period", None)),
    ("POST", "/budgets", {"name": "team"}, "amount"),
    *each_value("POST", "/billing/redeem", {"code": [None, "", 5, ["x"]]}),
    *each_value("POST", "/settings/alerts", {"webhook": ["hooks", 5], "low_balance": ["-1", "much"]}),
    *each_value("POST", "/settings/password", {"new_password": ["too short", "x" * 1025, None]}),
]  # fmt: skip
OPERATORS: Final[list[Case]] = [
    *each_value("PATCH", "/accounts/1", LIMITS),
    *spoil("POST", "/accounts", {}, ("name", None), ("name", ""), ("name", " "), ("name", 7)),
    *spoil("POST", "/accounts", {"name": "a", "credit": "1"}, ("note", None)),
    *(("POST", "/accounts", {"name": "a", "credit": wrong, "note": "x"}, "credit")
      for wrong in ("-1", "1e3", 1)),
    *spoil("POST", "/accounts", {"name": "a"}, ("operator", "yes")),
    *(("POST", f"/accounts/1/{verb}", {**MOVE, "amount": wrong}, "amount")
      for verb in ("credit", "correct")
      for wrong in (None, "0", "1,5", "0.0000000001", "1000000001", "NaN", 1.5)),
    *spoil("POST", "/accounts/1/credit", MOVE, ("amount", "-1"), ("note", ""), ("note", "  ")),
    *spoil("POST", "/accounts/1/credit", MOVE, ("note", None)),
    *spoil("POST", "/accounts/1/correct", MOVE, ("note", None), ("request_id", "req_none")),
    *(case for text in HIDING for case in (
        *spoil("POST", "/accounts", {}, ("name", text)),
        *spoil("POST", "/accounts", {"name": "fine", "credit": "1"}, ("note", text)),
        *spoil("POST", "/accounts/1/credit", MOVE, ("note", text)),
        *spoil("POST", "/accounts/1/correct", MOVE, ("note", text)),
        *spoil("POST", "/accounts/1/suspend", {}, ("reason", text)),
    )),
    *spoil("POST", "/codes", {"amount": "5", "count": 1}, ("amount", None), ("amount", 5)),
    *spoil("POST", "/codes", {"amount": "5", "count": 1}, ("amount", "0"), ("amount", "-5")),
    *spoil("POST", "/codes", {"amount": "5", "count": 1}, ("count", None), ("count", 0)),
    *spoil("POST", "/codes", {"amount": "5", "count": 1}, ("count", 1001), ("note", "x" * 501)),
    *spoil("POST", "/codes", {"amount": "5", "count": 1}, ("expires", "2001-01-01")),
    *spoil("POST", "/codes", {"amount": "5", "count": 1}, ("expires", BEYOND_DATES)),
    ("POST", "/codes/void-batch", {}, "batch"),
    *spoil("POST", "/tokens", {"name": "x", "role": "read"}, ("name", None), ("role", None)),
    *spoil("POST", "/tokens", {"name": "x", "role": "read"}, ("role", "holder")),
    *spoil("POST", "/tokens", {"name": "x", "role": "read"}, ("expires", "2001-01-01")),
]  # fmt: skip
LISTS: Final = ("activity", "billing", "keys", "accounts", "codes", "audit/log")
QUERIES: Final = {
    **{f"{path}?{wrong}": wrong.partition("=")[0]
       for path in LISTS
       for wrong in ("limit=0", "limit=201", "limit=x", "cursor=x", "cursor=WzFd", "cursor=WzEuNV0")
       if (path, wrong) not in {("billing", "cursor=WzFd"), ("audit/log", "cursor=WzFd")}},
    "keys?status=dead": "status",
    "codes?status=lost": "status",
    "accounts?sort=size": "sort",
    "refusals?period=ever": "period",
    "billing.csv?kind=gift": "kind",
    "billing.csv?from=tomorrow": "from",
    "activity.csv?from=2026-05-15&to=2026-05-14": "from",
    "activity?to=2026": "to",
    "activity?outcome=odd": "outcome",
    "activity?sort=cost": "sort",
    "activity?status=600": "status",
    "activity?account=nobody": "account",
    "activity.csv?account=nobody": "account",
    "entries?account=nobody": "account",
    "entries?kind=gift": "kind",
    "entries.csv?to=tomorrow": "to",
    "statement?account=nobody": "account",
    "statement.csv?from=9999-01-01": "from",
}  # fmt: skip
"""Queries, and the name in each that is to blame. `WzFd` is [1], `WzEuNV0` is [1.5]."""


async def test_a_wrong_field_is_named_and_nothing_changed(console: Console) -> None:
    key = (await console.post(f"{API}/keys", {"name": "own"})).json["key"]["id"]
    shown = ("keys", "budgets", "settings/alerts")
    before = [(await console.get(f"{API}/{one}")).json for one in shown]
    with told_together() as row:
        for as_, cases in ((HOLDER, HOLDERS), (OPERATOR, OPERATORS)):
            for number, (method, path, body, field) in enumerate(cases):
                with row(f"{method} {path} {body!r}"):
                    target = API + path.format(key=key)
                    reply = await console.ask(method, target, body, as_=as_, key=f"{number}")
                    assert reply.refusal == (400, "invalid_field", field)
                    assert reply.error["message"].endswith((".", "?"))
    assert [(await console.get(f"{API}/{one}")).json for one in shown] == before
    accounts = (await console.get(f"{API}/accounts", as_=OPERATOR)).json["accounts"]
    assert {one["balance"] for one in accounts} == {"100.00"}
    for path in ("codes", "tokens"):
        assert (await console.get(f"{API}/{path}", as_=OPERATOR)).json["count"] == 0


async def test_an_unknown_field_is_named(console: Console) -> None:
    with told_together() as row:
        for as_, cases in ((HOLDER, HOLDERS), (OPERATOR, OPERATORS)):
            for method, path in dict.fromkeys(case[:2] for case in cases if "{key}" not in case[1]):
                with row(f"{method} {path}"):
                    body = {**MOVE, **TEAM, "balance": 1, "code": "x", "new_password": "y" * 20}
                    body |= {"batch": "b", "role": "read", "count": 1}
                    reply = await console.ask(method, API + path, body, as_=as_, key="k")
                    assert reply.refusal[:2] == (400, "unknown_field")
            reply = await console.post(f"{API}/accounts", b"[]", as_=OPERATOR, key="k")
            assert reply.refusal == (400, "invalid_json", None)


async def test_a_wrong_query_is_named(console: Console) -> None:
    with told_together() as row:
        for target, field in QUERIES.items():
            with row(target):
                reply = await console.get(f"{API}/{target}", as_=OPERATOR)
                assert reply.refusal == (400, "invalid_field", field)
                assert reply.headers["Content-Type"] == "application/json"
