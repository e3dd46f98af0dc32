"""Chart, table, CSV, API and ledger agree to the nano-unit, around midnight too.

The pages stay readable with no data, much data, long names, and very small and large amounts.
"""

from __future__ import annotations

import csv
import io
import re
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Page

from gateway.admin import keys
from gateway.base.money import NANO
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.schema import connect
from tests.extras.console.browser.kit import (
    HEIGHT,
    NARROW,
    WIDE,
    Site,
    download,
    move,
    read_table,
    settle,
)
from tests.extras.console.browser.past import find_path
from tests.extras.console.browser.test_accessible import MEASURE
from tests.extras.console.calls import Past, add_calls
from tests.extras.console.kit import API, Console, start_console
from tests.long.million import ACCOUNT, History, write_history
from tests.support.served import HOLDER, MODEL, OPERATOR, OTHER

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

REQUESTS: Final = 20_000
MODELS: Final = 200
LONG: Final = "a name of a hundred characters, which is as long as one may be and still has".ljust(
    100, "!"
)
WORD: Final = "W" * 100
MANY_MODELS: Final = "\n".join(
    f'[models."vendor/model-{n:03d}"]\nroutes = ["demo/echo"]\nprice = {{ input = 1, output = 2 }}'
    for n in range(MODELS)
)
OWN_PAGES: Final = (
    "", "keys", "usage", "usage?by=model", "billing", "activity", "models", "keys?new=1",
)  # fmt: skip


# Los Angeles changed to summer time on 2026-03-08; days are UTC all the same.
CALLS: Final = (  # when it ended, model, cost, key
    ("2026-03-07T23:59:59.999Z", MODEL, 1, 0),
    ("2026-03-08T00:00:00.000Z", MODEL, 20, 1),
    ("2026-03-08T10:30:00.000Z", "vendor/large", 1_000_000_007, 0),
    ("2026-03-28T22:59:59.999Z", MODEL, 300, 0),
    ("2026-03-28T23:59:59.999Z", "vendor/large", 123_456_789, 0),
    ("2026-03-29T00:00:00.000Z", MODEL, 4_000, 1),
    ("2026-03-29T00:59:59.999Z", MODEL, 50_000, 0),
    ("2026-03-29T01:00:00.000Z", "vendor/large", 999_999_999, 1),
    ("2026-03-29T23:59:59.999Z", MODEL, 600_000, 0),
    ("2026-03-30T00:00:00.000Z", MODEL, 7_000_000, 0),
)


READ_AXES: Final = """(plot) => {
    const box = plot.getBoundingClientRect();
    const texts = [...plot.querySelectorAll("text")];
    const beyond = texts.filter((one) => {
        const { left, right } = one.getBoundingClientRect();
        return left < box.left - 1 || right > box.right + 1;
    });
    return [texts, beyond].map((some) => some.map((one) => one.textContent));
}"""


def seed(books: SqliteBooks) -> None:
    """Write requests through the ledger: busy, rich and poor accounts, and a long name."""
    key_ids = [keys.add_key(books, HOLDER, KeyTerms(name=f"key {n}")).key.id for n in range(2)]
    books.accounts.create(LONG, credit_nano=1_000_000 * NANO)
    books.accounts.create(WORD)
    books.entries.credit(WORD, 1000, note=WORD * 5)
    keys.add_key(books, WORD, KeyTerms(name=LONG))
    keys.add_key(books, WORD, KeyTerms(name=WORD, cap_nano=1))
    with closing(connect(find_path(books))) as raw:
        write_history(raw, History(REQUESTS, end_ms=time.time_ns() // 1_000_000))
    calls = [
        Past(key_ids[key], read_ms(ended) - 900, read_ms(ended), model, cost_nano)
        for ended, model, cost_nano, key in CALLS
    ]
    add_calls(find_path(books), books.accounts.find_id(HOLDER), calls)


def read_ms(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    folder = tmp_path_factory.mktemp("figures")
    async with start_console(folder, seed=seed, more=MANY_MODELS) as console:
        yield console


def read_ledger(console: Console, first: str, last: str, by: str) -> dict[str, int]:
    """Sum up charges by UTC day or by model, from the entries themselves."""
    found: dict[str, int] = {}
    with closing(sqlite3.connect(console.database)) as connection:
        rows = connection.execute(
            "SELECT requests.ended_ms, requests.model, -amount_nano FROM entries"
            " JOIN requests ON requests.id = entries.request_id WHERE entries.account_id ="
            " (SELECT id FROM accounts WHERE name = ?) AND kind = 'charge'",
            (HOLDER,),
        ).fetchall()
    for ended_ms, model, cost_nano in rows:
        at = datetime.fromtimestamp(ended_ms // 1000, UTC)
        if first <= at.strftime("%Y-%m-%d") <= last:
            name = at.strftime("%Y-%m-%d") if by == "day" else model
            found[name] = found.get(name, 0) + cost_nano
    return found


def nano(amount: str) -> int:
    whole, _, fraction = amount.replace("$", "").replace(",", "").partition(".")
    return int(whole + fraction.ljust(9, "0"))


async def read_chart(page: Page, slots: int) -> dict[str, int]:
    """Read the tooltip of each bar."""
    plot = page.locator(".plot svg[role=img]")
    await plot.wait_for()
    box = await plot.bounding_box()
    assert box
    left = float(await plot.locator(".grid").first.get_attribute("x1") or 0)
    width = (box["width"] - left) / slots
    found = {}
    for slot in range(slots):
        await page.mouse.move(box["x"] + left + (slot + 0.5) * width, box["y"] + box["height"] / 2)
        label, _, amount = (await page.locator(".readout").inner_text()).rpartition(": ")
        found[label] = nano(amount)
    await page.mouse.move(0, 0)  # the legend has the split of the bar under the pointer
    return found


async def read_legend(page: Page) -> dict[str, int]:
    names = await page.locator(".legend span").all_inner_texts()
    amounts = [await one.get_attribute("value") for one in await page.locator(".legend data").all()]
    return {name: nano(amount or "") for name, amount in zip(names, amounts, strict=True)}


async def read_csv(page: Page, by: str) -> dict[str, int]:
    rows = list(csv.DictReader(io.StringIO(await download(page, "CSV"))))
    assert all(nano(row["cost"]) == int(row["cost_nano"]) for row in rows)
    return {row[by]: int(row["cost_nano"]) for row in rows}


async def test_days_are_utc_wherever_one_is(site: Site, console: Console) -> None:
    """Chart, table, CSV and API equal the entries of the ledger, day for day."""
    page = await site.open("", HOLDER, timezone_id="America/Los_Angeles")
    for first, last, count in (
        ("2026-03-07", "2026-03-08", 2),
        ("2026-03-28", "2026-03-30", 3),
        ("2026-03-29", "2026-03-29", 1),
    ):
        wanted = read_ledger(console, first, last, "day")
        await move(page, f"usage?from={first}&to={last}")
        rows = await read_table(page, "Usage by day")
        assert {row["Day (UTC)"]: nano(row["Cost, USD"]) for row in rows[:-1]} == wanted
        assert nano(rows[-1]["Cost, USD"]) == sum(wanted.values())
        assert await read_csv(page, "day") == wanted
        shown = await read_chart(page, count)
        assert [one for one in shown.values() if one] == list(wanted.values())
        assert await read_legend(page) == read_ledger(console, first, last, "model")
        reply = await console.get(f"{API}/usage?from={first}&to={last}")
        assert {row["day"]: row["cost_nano"] for row in reply.json["rows"]} == wanted
        assert reply.json["totals"]["cost_nano"] == sum(wanted.values())


async def test_local_time_is_an_addition(site: Site) -> None:
    """The local time is shown in addition; UTC stays, and days are UTC days."""
    page = await site.open("settings", HOLDER, timezone_id="Asia/Kolkata", locale="en-GB")
    await page.get_by_label("Times").select_option("yes")
    await move(page, "activity")
    shown = await page.locator("time", has_text="2026-03-29 23:59:59").first.inner_text()
    assert "30 Mar 2026, 05:29:59" in shown


async def test_readable_at_all_sizes(site: Site) -> None:
    """No data, one request, very many; names of 100 characters; a millionth and a million."""
    faults: list[str] = []
    for who, pages in (
        (OTHER, OWN_PAGES),
        (WORD, OWN_PAGES),
        (ACCOUNT, OWN_PAGES),
        (OPERATOR, ("accounts", f"accounts/{WORD}", f"accounts/{ACCOUNT}", "audit", "health")),
    ):
        page = await site.open("", who)
        for path in pages:
            await move(page, path)
            for width in (WIDE, NARROW):
                await page.set_viewport_size({"width": width, "height": HEIGHT})
                found = (await page.evaluate(MEASURE))["faults"]
                faults += [f"{who[:8]} {path} at {width}: {one}" for one in found]
    assert faults == []


async def test_a_balance_of_a_million_stands_in_one_line(site: Site) -> None:
    page = await site.open("", LONG)
    for path in ("", "billing"):
        await move(page, path)
        for width in (WIDE, NARROW):
            await page.set_viewport_size({"width": width, "height": HEIGHT})
            assert await page.locator(".big").evaluate("(one) => one.getClientRects().length") == 1


ROUNDED: Final = {
    "37.844999999": ("37.8", "37.84"),
    "4.484": ("4.48", "4.48"),
    "4.9977": ("5.00", "4.99"),
    "-0.515": ("−0.52", "−0.52"),
    "-10.211": ("−10.2", "−10.22"),
    "-0.001": ("−0.001", "−0.001"),
    "0.9999": ("1.00", "0.99"),
    "0.0099996": ("0.01", "0.0099"),
    "0.000128271": ("0.00013", "0.00012"),
    "-0.000128271": ("−0.00013", "−0.00013"),
    "-0.000000001": ("−0.000000001", "−0.000000001"),
    "330.00": ("330", "330.00"),
    "1234567.005": ("1,234,567", "1,234,567.00"),
    "0.00": ("0.00", "0.00"),
}
"""Amounts, as spending and as a balance."""


async def test_amounts_are_rounded_to_what_a_person_reads(site: Site) -> None:
    """Spending to three digits, balances down to the cent; the exact amount is the title."""
    page = await site.open("", HOLDER)
    shown = await page.evaluate(
        """async (values) => {
            const { amount, balance } = await import("/console/static/format.js");
            return values.map((value) => [amount(value), balance(value)].map((one) => [one.textContent, one.title]));
        }""",
        list(ROUNDED),
    )
    for (value, texts), both in zip(ROUNDED.items(), shown, strict=True):
        for text, (rounded, title) in zip(texts, both, strict=True):
            assert rounded.replace("$", "") == text
            assert nano(title.replace("−", "-") or value) == nano(value)
            assert bool(title) == (nano(value) != nano(text.replace("−", "-")))


async def test_what_was_paid_is_exact(site: Site) -> None:
    """The credits of a period are paid amounts, unlike the charges beside them."""
    page = await site.open("", OPERATOR)
    await page.get_by_text("Calls, times and money by period").click()
    cell = page.locator("tbody tr").filter(has_text="30 days").locator("td[data-label=Credited]")
    assert (await cell.inner_text()).endswith(".000001")


async def test_amounts_have_no_exponent_and_the_smallest_is_not_0(site: Site) -> None:
    """Amounts have no exponent, and the smallest is not shown as 0."""
    page = await site.open("", WORD)
    assert await page.locator("data.big").inner_text() == "$0.000001"
    page = await site.open(f"accounts/{WORD}", OPERATOR)
    assert "0.000001" in await page.inner_text("main")
    await move(page, "accounts?search=a name of a hundred")
    [row] = await read_table(page, "Accounts")
    assert row["Balance, USD"] == "1000000.00"
    shown = await page.locator("tbody data.money").first.inner_text()
    assert shown == "1,000,000.00"


async def test_the_axes_of_charts_are_whole(site: Site) -> None:
    """The least amounts have the longest numbers; all of them are within the picture."""
    page = await site.open("", HOLDER)
    for day, highest in (("2026-03-07", "0.000000001"), ("2026-03-08", "1.5")):
        for width in (NARROW, WIDE // 2, WIDE):
            await page.set_viewport_size({"width": width, "height": HEIGHT})
            await move(page, f"usage?from={day}&to={day}")
            plot = page.locator(".plot")
            await plot.locator("svg[role=img]").wait_for()
            texts, beyond = await plot.evaluate(READ_AXES)
            assert beyond == [], f"{day} at {width} px"
            assert highest in texts


async def test_a_bar_that_is_clicked_leads_to_its_day(site: Site) -> None:
    for path, as_ in (
        ("usage?from=2026-03-07&to=2026-03-08", HOLDER),
        (f"accounts/{ACCOUNT}", OPERATOR),
        ("", OPERATOR),
    ):
        page = await site.open(path, as_)
        plot = page.locator(".plot svg[role=img]")
        await plot.wait_for()
        box = await plot.bounding_box()
        assert box is not None
        await plot.click(position={"x": box["width"] - 9, "y": box["height"] / 2})
        await page.wait_for_url(re.compile(r"/usage\?.*by=hour&from=(\d{4}-\d\d-\d\d)&to=\1"))


async def test_what_is_owed_is_rounded_up_and_times_from_buckets_are_near(site: Site) -> None:
    page = await site.open("", HOLDER)
    shown = await page.evaluate(
        """async () => {
            const { debt, percentiles } = await import("/console/static/format.js");
            return [debt("10.211").textContent, percentiles(300, 4700), percentiles(300, 4700, true)];
        }"""
    )
    assert shown == ["$10.22", "≈ 0.30 / 4.70 s", "0.30 / 4.70 s"]


async def test_of_two_hundred_models_the_chart_shows_eight(site: Site) -> None:
    """The chart shows eight models and sums up the rest; the table has all."""
    page = await site.open("usage?by=model&show=requests", ACCOUNT)
    legend = await page.locator(".legend span").all_inner_texts()
    assert len(legend) == 9
    assert legend[-1] == "other (4)"
    rows = await read_table(page, "Usage by model")
    assert len(rows) == 12 + 1
    page = await site.open("models", OPERATOR)
    assert len(await read_table(page, "Models and prices")) == MODELS + 3
    await move(page, "keys?new=1")
    boxes = page.get_by_role("dialog").get_by_role("checkbox")
    assert await boxes.count() == MODELS + 2


async def test_a_long_list_is_led_through_by_links(site: Site) -> None:
    """The link leads through the pages, with each row once; the browser's button leads back."""
    page = await site.open("activity", ACCOUNT)
    seen: list[str] = []
    for _ in range(3):
        rows = await read_table(page, "Calls")
        seen += [row["Started (UTC), request id"] for row in rows]
        link = page.get_by_role("link", name="Next page")
        assert await link.get_attribute("rel") == "next"
        await link.click()
        await settle(page)
    assert len(seen) == len(set(seen)) == 150
    await page.go_back()
    await settle(page)
    rows = await read_table(page, "Calls")
    assert rows[0]["Started (UTC), request id"] == seen[100]
    assert f"{REQUESTS:,} calls" in await page.inner_text("main")
