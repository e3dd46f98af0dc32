"""Usage: each figure equals the ledger's, in every grouping, filter and download."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest
import pytest_asyncio

from gateway.admin import keys
from gateway.ledger.call_records import Outcome
from gateway.ledger.key_records import KeyTerms
from gateway.money import format_amount
from gateway.times import DAY_MS, HOUR_MS, format_day
from tests.console.calls import SUMS, TODAY, Past, add_calls
from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console, Reply, open_console
from tests.ledger.kit import TOKENS

MIDNIGHT_MS: Final = TODAY * DAY_MS
RANGE: Final = "from=2024-10-01&to=2024-10-10"
GROUPS: Final = ("day", "hour", "model", "key")
on_one_loop: Final = pytest.mark.asyncio(loop_scope="module")
FORMULA: Final = "=cmd|' /C calc'!A0"


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
) -> Past:
    return Past(key_id, ended_ms - 5, ended_ms, model, cost_nano, outcome)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with open_console(tmp_path_factory.mktemp("usage")) as console:
        with console.open_books() as books:
            laptop = keys.add_key(books, HOLDER, KeyTerms(name="laptop")).key.id
            formula = keys.add_key(books, HOLDER, KeyTerms(name=FORMULA)).key.id
            foreign = keys.add_key(books, OTHER).key.id
        calls = [
            ended(laptop, MIDNIGHT_MS - 1, 1),
            ended(laptop, MIDNIGHT_MS, 10),
            ended(formula, MIDNIGHT_MS + HOUR_MS - 1, 100),
            ended(formula, MIDNIGHT_MS + HOUR_MS, 1000, "=large"),
            ended(laptop, MIDNIGHT_MS + 3 * DAY_MS, 10**12 + 1, "=large"),
            ended(laptop, MIDNIGHT_MS + 3 * DAY_MS, 0, "free"),
            ended(laptop, MIDNIGHT_MS + 4 * DAY_MS, 0, "never/answers", "upstream_error"),
        ]
        add_calls(console.database, console.account_id(HOLDER), calls)
        add_calls(console.database, console.account_id(OTHER), [ended(foreign, MIDNIGHT_MS, 5)])
        yield Scene(console, (laptop, formula))


async def ask(scene: Scene, query: str = "", *, as_: str = HOLDER) -> dict[str, Any]:
    reply = await scene.console.get(f"{API}/usage?{RANGE}&{query}", as_=as_)
    assert reply.status == 200, reply.body
    body: dict[str, Any] = reply.json
    return body


async def ask_csv(scene: Scene, query: str) -> tuple[Reply, list[dict[str, str]]]:
    reply = await scene.console.get(f"{API}/usage.csv?{RANGE}&{query}")
    assert reply.status == 200, reply.body
    return reply, list(csv.DictReader(io.StringIO(reply.body.decode())))


def add(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    return {name: sum(int(row[name]) for row in rows) for name in SUMS}


def sum_ledger(scene: Scene, where: str) -> dict[str, int]:
    """Sum up the requests themselves."""
    with scene.console.open_books() as books:
        row = books.connection.execute(
            f"SELECT count(*), {', '.join(f'coalesce(sum({name}), 0)' for name in SUMS[1:])}"
            f" FROM requests WHERE state = 'posted' AND {where}"
        ).fetchone()
    return dict(zip(SUMS, row, strict=True))


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("", "true"),
        ("key={0}", "key_id = '{0}'"),
        ("key={1}", "key_id = '{1}'"),
        ("model=demo/echo", "model = 'demo/echo'"),
        ("model=%3Dlarge&key={1}", "model = '=large' AND key_id = '{1}'"),
        ("from=2024-10-03&to=2024-10-03", f"ended_ms < {MIDNIGHT_MS}"),
        (
            "from=2024-10-04&to=2024-10-04",
            f"ended_ms >= {MIDNIGHT_MS} AND ended_ms < {MIDNIGHT_MS + DAY_MS}",
        ),
        ("model=nothing", "false"),
    ],
)
@on_one_loop
async def test_all_groupings_are_the_ledger(scene: Scene, query: str, where: str) -> None:
    """Rows, totals, chart and CSV of every grouping have the same sums, to the nano-unit."""
    wanted = sum_ledger(
        scene,
        f"account_id = {scene.console.account_id(HOLDER)} AND {where.format(*scene.keys)}",
    )
    asked = query.format(*scene.keys)
    range_ = "" if "from=" in asked else f"{RANGE}&"
    for by in GROUPS:
        path = f"?{range_}{asked}&by={by}"
        view = (await scene.console.get(f"{API}/usage{path}")).json
        assert view["by"] == by
        assert add(view["rows"]) == wanted
        assert {name: view["totals"][name] for name in SUMS} == wanted
        assert view["totals"]["cost"] == format_amount(wanted["cost_nano"])
        points = view["chart"]["points"]
        assert sum(point["cost_nano"] for point in points) == wanted["cost_nano"]
        assert sum(point["requests"] for point in points) == wanted["requests"]
        assert sum(point["tokens"] for point in points) == sum(wanted[name] for name in SUMS[1:5])
        text = (await scene.console.get(f"{API}/usage.csv{path}")).body.decode()
        assert add(list(csv.DictReader(io.StringIO(text)))) == wanted


@on_one_loop
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


@on_one_loop
async def test_models_and_keys_come_dearest_first(scene: Scene) -> None:
    models = (await ask(scene, "by=model"))["rows"]
    assert [(row["model"], row["cost"]) for row in models] == [
        ("=large", "1000.000001001"),
        ("demo/echo", "0.000000111"),
        ("free", "0.00"),
    ]
    first, second = (await ask(scene, "by=key"))["rows"]
    assert (first["key"], first["key_name"], first["requests"]) == (scene.keys[0], "laptop", 4)
    assert (second["key"], second["key_name"], second["cost_nano"]) == (
        scene.keys[1],
        FORMULA,
        1100,
    )
    assert second["key_display"].startswith("sk-ru-…")


@on_one_loop
async def test_the_shape_is_the_contracts(scene: Scene) -> None:
    view = await ask(scene, "model=demo/echo")
    assert list(view) == ["from", "to", "by", "currency", "rows", "totals", "chart", "models"]
    assert (view["from"], view["to"], view["currency"]) == ("2024-10-01", "2024-10-10", "USD")
    assert view["models"] == ["=large", "demo/echo", "free"], "all that could be asked for"
    assert view["chart"] == {
        "unit": "day",
        "points": [
            {
                "at": "2024-10-03",
                "model": "demo/echo",
                "requests": 1,
                "tokens": TOKENS.total,
                "cost": "0.000000001",
                "cost_nano": 1,
            },
            {
                "at": "2024-10-04",
                "model": "demo/echo",
                "requests": 2,
                "tokens": 2 * TOKENS.total,
                "cost": "0.00000011",
                "cost_nano": 110,
            },
        ],
    }
    assert view["rows"][0] == {
        "day": "2024-10-03",
        "requests": 1,
        "input_tokens": TOKENS.input,
        "cached_input_tokens": TOKENS.cached_input,
        "cache_write_tokens": TOKENS.cache_write,
        "output_tokens": TOKENS.output,
        "cost": "0.000000001",
        "cost_nano": 1,
    }
    one_day = (await scene.console.get(f"{API}/usage?from=2024-10-04&to=2024-10-04")).json
    assert one_day["models"] == ["=large", "demo/echo"], "of that day, its last one"
    hourly = (await ask(scene, "by=hour"))["chart"]
    assert (hourly["unit"], hourly["points"][0]["at"]) == ("hour", "2024-10-03T23:00:00.000Z")


@pytest.mark.parametrize("by", GROUPS)
@on_one_loop
async def test_csv_is_the_json(scene: Scene, by: str) -> None:
    """CSV and JSON agree cell by cell; a cell that would be a formula begins with an apostrophe."""
    wanted = (await ask(scene, f"by={by}"))["rows"]
    reply, rows = await ask_csv(scene, f"by={by}")
    names = (by, "key_name") if by == "key" else (by,)
    assert reply.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert reply.headers["Content-Disposition"].startswith('attachment; filename="usage-')
    assert list(rows[0]) == [*names, *SUMS[:5], "cost", "cost_nano"]
    assert [{name: row[name].removeprefix("'") for name in row} for row in rows] == [
        {name: str(row[name]) for name in rows[0]} for row in wanted
    ]
    cells = [row[name] for row in rows for name in names]
    assert not [cell for cell in cells if cell.startswith("=")]


@on_one_loop
async def test_accounts_see_their_own(scene: Scene) -> None:
    """Another account's key is handled like an unknown one."""
    other = await ask(scene, as_=OTHER)
    assert (other["totals"]["cost_nano"], other["models"]) == (5, ["demo/echo"])
    assert (await ask(scene, as_=OPERATOR))["rows"] == []
    foreign = await ask(scene, f"key={scene.keys[0]}", as_=OTHER)
    assert foreign == await ask(scene, "key=key_nowhere", as_=OTHER)
    assert foreign["rows"] == foreign["chart"]["points"] == foreign["models"] == []
    assert foreign["totals"]["cost"] == "0.00"


@on_one_loop
async def test_ranges_that_are_left_out(scene: Scene) -> None:
    """The default is 30 days to today, 30 days to `to`, or from `from` to today."""
    today = int(time.time()) // 86_400

    async def find_range(query: str) -> tuple[str, str]:
        view = (await scene.console.get(f"{API}/usage?{query}")).json
        return view["from"], view["to"]

    assert await find_range("") == (format_day(today - 29), format_day(today))
    assert await find_range("to=2024-10-30") == ("2024-10-01", "2024-10-30")
    assert await find_range("to=0001-01-02") == ("0001-01-01", "0001-01-02")
    start = format_day(today - 3)
    assert await find_range(f"from={start}") == (start, format_day(today))
    assert await find_range("from=2024-01-01&to=2024-12-31") == ("2024-01-01", "2024-12-31")
    assert await find_range("by=hour&from=2024-01-01&to=2024-01-31") == ("2024-01-01", "2024-01-31")


@pytest.mark.parametrize("path", ["usage", "usage.csv"])
@pytest.mark.parametrize(
    ("query", "code", "field"),
    [
        ("from=2024-10-05&to=2024-10-04", "invalid_field", "from"),
        ("from=9999-12-31", "invalid_field", "from"),
        ("from=2024-02-30", "invalid_field", "from"),
        ("to=yesterday", "invalid_field", "to"),
        ("by=week", "invalid_field", "by"),
        ("from=2023-12-31&to=2024-12-31", "range_too_long", "from"),
        ("by=key&from=2023-12-31&to=2024-12-31", "range_too_long", "from"),
        ("by=hour&from=2024-01-01&to=2024-02-01", "range_too_long", "from"),
    ],
)
@on_one_loop
async def test_ranges_that_cannot_be(
    scene: Scene, path: str, query: str, code: str, field: str
) -> None:
    reply = await scene.console.get(f"{API}/{path}?{query}")
    assert reply.refusal == (400, code, field)
    assert reply.error["message"].endswith(".")
