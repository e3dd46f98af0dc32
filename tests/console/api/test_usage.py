"""Usage, costs and prices: each figure equals the ledger's, in every grouping, filter and download."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
import pytest_asyncio

from gateway.admin import keys
from gateway.ledger.call_records import Outcome
from gateway.ledger.key_records import KeyTerms
from gateway.money import MEDIA, PRICES, format_amount
from gateway.times import DAY_MS, HOUR_MS, format_day
from tests.console.calls import SUMS, TODAY, Past, add_calls
from tests.console.history import read_csv
from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console, Reply, open_console
from tests.ledger.contract.kit import TOKENS
from tests.support.rows import each_row

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIDNIGHT_MS: Final = TODAY * DAY_MS
RANGE: Final = "from=2024-10-01&to=2024-10-10"
GROUPS: Final = ("day", "hour", "model", "key")
FORMULA: Final = "=cmd|' /C calc'!A0"
SECRET_WORDS: Final = ("provider_cost", "margin", "reported", "costed", "4242", "1717")
FREE: Final = """
[models."demo/free"]
routes = ["demo/free"]
owned_by = "someone"
max_input_tokens = 1000
max_output_tokens = 500
price = "free"
"""


@dataclass(frozen=True)
class Scene:
    console: Console
    keys: tuple[str, str]
    """The holder's two keys; the name of the second is a formula."""


def ended(
    key_id: str,
    ended_ms: int,
    cost_nano: int,
    model: str = "demo/echo",
    outcome: Outcome = "complete",
    *,
    costs: tuple[int | None, int | None] = (None, None),
) -> Past:
    """Return a request; `costs` are the provider's, computed and reported."""
    past = Past(key_id, ended_ms - 5, ended_ms, model, cost_nano, outcome)
    return replace(past, provider_cost_nano=costs[0], reported_cost_nano=costs[1])


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with open_console(tmp_path_factory.mktemp("usage"), more=FREE) as console:
        with console.open_books() as books:
            laptop = keys.add_key(books, HOLDER, KeyTerms(name="laptop")).key.id
            formula = keys.add_key(books, HOLDER, KeyTerms(name=FORMULA)).key.id
            foreign = keys.add_key(books, OTHER).key.id
        late = MIDNIGHT_MS + 3 * DAY_MS
        calls = [
            ended(laptop, MIDNIGHT_MS - 1, 1, costs=(6, None)),
            ended(laptop, MIDNIGHT_MS, 10),
            ended(formula, MIDNIGHT_MS + HOUR_MS - 1, 100),
            ended(formula, MIDNIGHT_MS + HOUR_MS, 1000, "=large"),
            ended(laptop, late, 10**12 + 1, "=large", costs=(4242, 1717)),
            ended(laptop, late, 0, "free"),
            ended(laptop, late + DAY_MS, 0, "never/answers", "upstream_error"),
        ]
        add_calls(console.database, console.account_id(HOLDER), calls)
        others = [ended(foreign, MIDNIGHT_MS, 5, costs=(50, None))]
        add_calls(console.database, console.account_id(OTHER), others)
        yield Scene(console, (laptop, formula))


async def ask(scene: Scene, query: str = "", *, as_: str = HOLDER, path: str = "usage") -> Any:
    reply = await scene.console.get(f"{API}/{path}?{RANGE}&{query}", as_=as_)
    assert reply.status == 200, reply.body
    return reply.json


def add(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    return {name: sum(int(row[name]) for row in rows) for name in SUMS}


def sum_ledger(scene: Scene, where: str) -> dict[str, int]:
    """Sum up the holder's requests themselves."""
    sums = ", ".join(f"coalesce(sum({name}), 0)" for name in SUMS[1:])
    mine = f"account_id = {scene.console.account_id(HOLDER)}"
    with scene.console.open_books() as books:
        row = books.connection.execute(
            f"SELECT count(*), {sums} FROM requests WHERE state = 'posted' AND {mine} AND {where}"
        ).fetchone()
    return dict(zip(SUMS, row, strict=True))


# ---- usage ---------------------------------------------------------------------------------------


@each_row(
    ("query", "where"),
    [
        ("", "true"),
        ("key={0}", "key_id = '{0}'"),
        ("key={1}", "key_id = '{1}'"),
        ("model=demo/echo", "model = 'demo/echo'"),
        ("model=%3Dlarge&key={1}", "model = '=large' AND key_id = '{1}'"),
        ("from=2024-10-03&to=2024-10-03", f"ended_ms < {MIDNIGHT_MS}"),
        ("from=2024-10-04&to=2024-10-04",
         f"ended_ms >= {MIDNIGHT_MS} AND ended_ms < {MIDNIGHT_MS + DAY_MS}"),
        ("model=nothing", "false"),
    ],
)  # fmt: skip
async def test_all_groupings_are_the_ledger(scene: Scene, query: str, where: str) -> None:
    """Rows, totals, chart and CSV of every grouping have the same sums, to the nano-unit."""
    wanted = sum_ledger(scene, where.format(*scene.keys))
    asked = query.format(*scene.keys)
    for by in GROUPS:
        path = f"?{'' if 'from=' in asked else f'{RANGE}&'}{asked}&by={by}"
        view = (await scene.console.get(f"{API}/usage{path}")).json
        assert view["by"] == by
        assert add(view["rows"]) == wanted
        assert {name: view["totals"][name] for name in SUMS} == wanted
        assert view["totals"]["cost"] == format_amount(wanted["cost_nano"])
        points = view["chart"]["points"]
        assert sum(point["cost_nano"] for point in points) == wanted["cost_nano"]
        assert sum(point["requests"] for point in points) == wanted["requests"]
        assert sum(point["tokens"] for point in points) == sum(wanted[name] for name in SUMS[1:5])
        assert add(read_csv(await scene.console.get(f"{API}/usage.csv{path}"))) == wanted


async def test_days_and_hours_begin_at_utc_midnight(scene: Scene) -> None:
    """23:59:59.999 belongs to the day before; days without requests have no row."""
    days = (await ask(scene))["rows"]
    assert [(row["day"], row["requests"], row["cost_nano"]) for row in days] == [
        ("2024-10-03", 1, 1),
        ("2024-10-04", 3, 1110),
        ("2024-10-07", 2, 10**12 + 1),
    ]
    hours = (await ask(scene, "by=hour"))["rows"]
    assert [(row["hour"], row["cost_nano"]) for row in hours] == [
        ("2024-10-03T23:00:00.000Z", 1),
        ("2024-10-04T00:00:00.000Z", 110),
        ("2024-10-04T01:00:00.000Z", 1000),
        ("2024-10-07T00:00:00.000Z", 10**12 + 1),
    ]


async def test_models_and_keys_come_dearest_first(scene: Scene) -> None:
    models = (await ask(scene, "by=model"))["rows"]
    assert [(row["model"], row["cost"]) for row in models] == [
        ("=large", "1000.000001001"),
        ("demo/echo", "0.000000111"),
        ("free", "0.00"),
    ]
    rows = (await ask(scene, "by=key"))["rows"]
    assert [(row["key"], row["key_name"], row["requests"], row["cost_nano"]) for row in rows] == [
        (scene.keys[0], "laptop", 4, 10**12 + 12),
        (scene.keys[1], FORMULA, 2, 1100),
    ]
    assert rows[1]["key_display"].startswith("sk-ru-…")


async def test_the_shape_is_the_contracts(scene: Scene) -> None:
    view = await ask(scene, "model=demo/echo")
    assert list(view) == ["from", "to", "by", "currency", "rows", "totals", "chart", "models"]
    assert (view["from"], view["to"], view["currency"]) == ("2024-10-01", "2024-10-10", "USD")
    assert view["models"] == ["=large", "demo/echo", "free"], "all that could be asked for"
    first = {"requests": 1, "cost": "0.000000001", "cost_nano": 1}
    point = {"at": "2024-10-03", "model": "demo/echo", "tokens": TOKENS.total, **first}
    assert (view["chart"]["unit"], view["chart"]["points"][0]) == ("day", point)
    assert view["rows"][0] == {
        "day": "2024-10-03", "input_tokens": TOKENS.input,
        "cached_input_tokens": TOKENS.cached_input, "cache_write_tokens": TOKENS.cache_write,
        "output_tokens": TOKENS.output, **first,
    }  # fmt: skip
    one_day = (await scene.console.get(f"{API}/usage?from=2024-10-04&to=2024-10-04")).json
    assert one_day["models"] == ["=large", "demo/echo"], "of that day, its last one"
    hourly = (await ask(scene, "by=hour"))["chart"]
    assert (hourly["unit"], hourly["points"][0]["at"]) == ("hour", "2024-10-03T23:00:00.000Z")


@each_row("by", GROUPS)
async def test_csv_is_the_json(scene: Scene, by: str) -> None:
    """CSV and JSON agree cell by cell; a cell that would be a formula begins with an apostrophe."""
    wanted = (await ask(scene, f"by={by}"))["rows"]
    reply: Reply = await scene.console.get(f"{API}/usage.csv?{RANGE}&by={by}")
    rows = read_csv(reply)
    names = (by, "key_name") if by == "key" else (by,)
    assert reply.headers["Content-Disposition"].startswith('attachment; filename="usage-')
    assert list(rows[0]) == [*names, *SUMS[:5], "cost", "cost_nano"]
    assert [{name: row[name].removeprefix("'") for name in row} for row in rows] == [
        {name: str(row[name]) for name in rows[0]} for row in wanted
    ]
    assert not [row for row in rows for name in names if row[name].startswith("=")]


async def test_accounts_see_their_own(scene: Scene) -> None:
    """Another account's key is handled like an unknown one; operators see any account's."""
    other = await ask(scene, as_=OTHER)
    assert (other["totals"]["cost_nano"], other["models"]) == (5, ["demo/echo"])
    assert (await ask(scene, as_=OPERATOR))["rows"] == []
    path = f"accounts/{scene.console.account_id(OTHER)}/usage"
    assert await ask(scene, as_=OPERATOR, path=path) == other
    foreign = await ask(scene, f"key={scene.keys[0]}", as_=OTHER)
    assert foreign == await ask(scene, "key=key_nowhere", as_=OTHER)
    assert foreign["rows"] == foreign["chart"]["points"] == foreign["models"] == []
    assert foreign["totals"]["cost"] == "0.00"


async def test_operators_see_the_usage_of_all_accounts_or_of_one(scene: Scene) -> None:
    own, other = await ask(scene, as_=HOLDER), await ask(scene, as_=OTHER)
    both = await ask(scene, as_=OPERATOR, path="gateway/usage")
    assert {name: both["totals"][name] for name in SUMS} == add([own["totals"], other["totals"]])
    assert both["models"] == sorted({*own["models"], *other["models"]})
    for name, wanted in ((HOLDER, own), (OTHER, other)):
        assert await ask(scene, f"account={name}", as_=OPERATOR, path="gateway/usage") == wanted
    rows = (await ask(scene, "by=account", as_=OPERATOR, path="gateway/usage"))["rows"]
    totals = {HOLDER: own["totals"], OTHER: other["totals"]}
    assert rows == [{"account": name, **totals[name]} for name in (HOLDER, OTHER)]
    (provider,) = (await ask(scene, "by=provider", as_=OPERATOR, path="gateway/usage"))["rows"]
    wanted = (await ask(scene, "by=day", as_=OPERATOR, path="gateway/usage"))["totals"]
    assert provider == {"provider": "demo", **wanted}
    few = await ask(scene, "by=provider&model=demo/echo", as_=OPERATOR, path="gateway/usage")
    assert few["rows"] == [{"provider": "demo", **few["totals"]}]
    keys_of_all = (await ask(scene, "by=key", as_=OPERATOR, path="gateway/usage"))["rows"]
    assert len(keys_of_all) == 3
    text = await scene.console.get(f"{API}/gateway/usage.csv?{RANGE}&by=account", as_=OPERATOR)
    assert [row["account"] for row in read_csv(text)] == [HOLDER, OTHER]
    unknown = await scene.console.get(f"{API}/gateway/usage?account=nobody", as_=OPERATOR)
    assert unknown.refusal == (400, "invalid_field", "account")
    assert (await scene.console.get(f"{API}/usage?by=account")).status == 400


async def test_ranges(scene: Scene) -> None:
    """The default is 30 days to today, 30 days to `to`, or from `from` to today."""
    today = int(time.time()) // 86_400
    start = format_day(today - 3)
    for query, expected in {
        "": (format_day(today - 29), format_day(today)),
        "to=2024-10-30": ("2024-10-01", "2024-10-30"),
        "to=0001-01-02": ("0001-01-01", "0001-01-02"),
        f"from={start}": (start, format_day(today)),
        "from=2024-01-01&to=2024-12-31": ("2024-01-01", "2024-12-31"),
        "by=hour&from=2024-01-01&to=2024-01-31": ("2024-01-01", "2024-01-31"),
    }.items():
        view = (await scene.console.get(f"{API}/usage?{query}")).json
        assert (view["from"], view["to"]) == expected
    for query, refusal in {
        "from=2024-10-05&to=2024-10-04": (400, "invalid_field", "from"),
        "from=9999-12-31": (400, "invalid_field", "from"),
        "from=2024-02-30": (400, "invalid_field", "from"),
        "to=yesterday": (400, "invalid_field", "to"),
        "by=week": (400, "invalid_field", "by"),
        "from=2023-12-31&to=2024-12-31": (400, "range_too_long", "from"),
        "by=key&from=2023-12-31&to=2024-12-31": (400, "range_too_long", "from"),
        "by=hour&from=2024-01-01&to=2024-02-01": (400, "range_too_long", "from"),
    }.items():
        for path in ("usage", "usage.csv"):
            reply = await scene.console.get(f"{API}/{path}?{query}")
            assert reply.refusal == refusal
            assert reply.error["message"].endswith(".")
    long = await scene.console.get(f"{API}/costs?from=2020-01-01&to=2024-10-10", as_=OPERATOR)
    assert long.refusal == (400, "range_too_long", "from")


# ---- costs ---------------------------------------------------------------------------------------


async def test_operators_see_the_margin_of_each_model_over_all_accounts(scene: Scene) -> None:
    """The least margin first; models of unknown cost last."""
    body = await ask(scene, as_=OPERATOR, path="costs")
    names = ("requests", "charged_nano", "costed_requests", "charged_with_cost_nano", "provider_cost_nano", "margin_nano",
             "reported_requests", "reported_cost_nano", "reported_excess_nano")  # fmt: skip
    rows = {row["model"]: tuple(row[name] for name in names) for row in body["rows"]}
    charged = 10**12 + 1001
    assert list(rows) == ["demo/echo", "=large", "free"]
    assert rows == {
        "demo/echo": (4, 116, 2, 6, 56, -50, 0, None, None),
        "=large": (2, charged, 1, 10**12 + 1, 4242, 10**12 + 1 - 4242, 1, 1717, 1717 - 4242),
        "free": (1, 0, 0, None, None, None, 0, None, None),
    }
    assert tuple(body["totals"][name] for name in names) == (
        7, charged + 116, 3, 10**12 + 7, 4298, 10**12 + 1 - 4292, 1, 1717, 1717 - 4242,
    )  # fmt: skip
    assert (body["currency"], body["from"], body["to"]) == ("USD", "2024-10-01", "2024-10-10")
    path = f"{API}/costs?from=2024-10-05&to=2024-10-06"
    empty = (await scene.console.get(path, as_=OPERATOR)).json
    assert (empty["rows"], empty["totals"]["requests"], empty["totals"]["margin"]) == ([], 0, None)


@each_row("by", ["model", "account", "provider", "day"])
async def test_costs_by_any_group_add_up_to_the_same(scene: Scene, by: str) -> None:
    """One account can be chosen; the chart has the days, and the CSV the rows."""
    whole = await ask(scene, as_=OPERATOR, path="costs")
    other = await ask(scene, f"by={by}&account={OTHER}", as_=OPERATOR, path="costs")
    body = await ask(scene, f"by={by}", as_=OPERATOR, path="costs")
    assert body["totals"] == whole["totals"]
    assert (body["by"], body["unknown"]) == (by, ["demo/echo", "=large", "free"])
    for view in (body, other):
        for name in ("requests", "charged_nano", "charged_with_cost_nano", "provider_cost_nano"):
            for rows in (view["rows"], view["chart"]["points"]):
                assert sum(row[name] or 0 for row in rows) == view["totals"][name]
    names = {"model": "demo/echo", "account": OTHER, "provider": "demo", "day": "2024-10-04"}
    (row,), (point,) = other["rows"], other["chart"]["points"]
    assert (row[by], row["provider_cost_nano"], point["day"]) == (names[by], 50, names["day"])
    text = await scene.console.get(f"{API}/costs.csv?{RANGE}&by={by}", as_=OPERATOR)
    written = [(row[by].removeprefix("'"), row["margin_nano"]) for row in read_csv(text)]
    shown = [(row[by], row["margin_nano"]) for row in body["rows"]]
    assert written == [(name, "" if nano is None else str(nano)) for name, nano in shown]


async def test_holders_see_no_costs(scene: Scene) -> None:
    for path in ("costs", "costs.csv"):
        assert (await scene.console.get(f"{API}/{path}?{RANGE}")).status == 404
    for place in (
        *(f"usage?{RANGE}&by={by}" for by in GROUPS),
        *(f"usage.csv?{RANGE}&by={by}" for by in GROUPS),
        *("overview", "activity", "activity.csv", "billing", "billing.csv", "keys", "models"),
    ):
        reply = await scene.console.get(f"{API}/{place}")
        assert reply.status == 200, place
        text = reply.body.decode()
        assert [word for word in SECRET_WORDS if word in text] == [], place


# ---- models --------------------------------------------------------------------------------------

MODEL_FIELDS: Final = {
    "id", "aliases", "owned_by", "kind", "on", "free", "price", "price_when",
    "max_input_tokens", "max_output_tokens", "unit",
}  # fmt: skip


async def fetch_models(scene: Scene, name: str) -> dict[str, Any]:
    listed = (await scene.console.get(f"{API}/models", as_=name)).json
    assert (set(listed), listed["currency"]) == ({"count", "currency", "models"}, "USD")
    assert listed["count"] == len(listed["models"])
    return {one["id"]: one for one in listed["models"]}


async def test_holders_see_what_they_can_call(scene: Scene) -> None:
    """They see the models of `/v1/models`, without the providers; operators all, with every route."""
    models = await fetch_models(scene, HOLDER)
    assert [set(one) for one in models.values()] == [MODEL_FIELDS] * 3
    assert {one["on"] for one in models.values()} == {True}
    with scene.console.open_books() as books:
        secret = keys.add_key(books, OTHER).secret
    assert scene.console.gateway is not None
    await scene.console.gateway.ledger.refresh()
    listed = await scene.console.ask("GET", "/v1/models", headers={"x-api-key": secret})
    assert [one["id"] for one in listed.json["data"]] == list(models)
    everything = await fetch_models(scene, OPERATOR)
    on = {"demo/echo": True, "vendor/large": True, "vendor/off": False, "demo/free": True}
    assert {name: one["on"] for name, one in everything.items()} == on
    assert [set(one) for one in everything.values()] == [MODEL_FIELDS | {"routes"}] * 4
    assert everything["vendor/large"]["aliases"] == models["vendor/large"]["aliases"] == ["large"]
    assert everything["vendor/large"]["routes"] == [
        {"provider": "vendor", "model": "large", "on": False},
        {"provider": "demo", "model": "echo", "on": True},
    ]


async def test_prices_are_exact_and_per_million(scene: Scene) -> None:
    models = await fetch_models(scene, HOLDER)
    names = [name for name in PRICES if name not in MEDIA]
    price = models["vendor/large"]["price"]
    assert {name: price[f"{name}_nano"] for name in names} == {
        "input": 10**9, "cached_input": 5 * 10**8, "cache_write": 10**9, "output": 2 * 10**9,
        "request": 0, "cache_write_1h": 16 * 10**8, "web_search": 0,
    }  # fmt: skip
    for one in models.values():
        told = one["price"]
        assert set(told) == {*names, *(f"{name}_nano" for name in names), "by_bill", "tools"}
        assert (told["by_bill"], told["tools"]) == (False, {})
        for name in names:
            assert told[name] == format_amount(told[f"{name}_nano"])
    free = models["demo/free"]
    assert (free["free"], free["owned_by"], free["price"]["input_nano"]) == (True, "someone", 0)
    assert (free["max_input_tokens"], free["max_output_tokens"]) == (1000, 500)
    assert not models["demo/echo"]["free"]
