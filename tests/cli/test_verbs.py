"""The verbs over a real database: their effects, and what they print on which stream."""

from __future__ import annotations

import csv
import io
import sqlite3
from dataclasses import replace

from gateway.ledger import open_ledger
from tests.ledger.kit import admission, charge, find_key, make_place, settlement
from tests.support.cli import Cli


async def make_usage(cli: Cli, second_model: str = "demo/echo") -> str:
    """Make two charges of account `a` and return the id of its key."""
    place = make_place(cli.folder)
    async with open_ledger(place.path) as ledger:
        key = find_key(ledger, place)
        await charge(ledger, key, 1_000_000_001)
        second = ledger.hold(key, replace(admission(), model=second_model))
        await ledger.settle(second, settlement(2))
    return place.key_id


async def test_usage_is_summed_by_day_model_and_key(cli: Cli) -> None:
    key_id = await make_usage(cli)
    for by, group in (("day", "2023-11-14"), ("model", "demo/echo"), ("key", key_id)):
        assert cli.done("usage", "--by", by, "--json").json == [
            {
                by: group,
                "requests": 2,
                "input_tokens": 200,
                "cached_input_tokens": 40,
                "cache_write_tokens": 10,
                "output_tokens": 100,
                "cost": "1.000000003",
                "cost_nano": 1_000_000_003,
            }
        ]


async def test_usage_is_cut_by_account_and_date(cli: Cli) -> None:
    await make_usage(cli)
    cli.done("account", "add", "other")
    counts = {
        words: sum(row["requests"] for row in cli.done("usage", *words, "--json").json)
        for words in (
            ("--account", "a"),
            ("--account", "other"),
            ("--since", "2023-11-14"),
            ("--since", "2023-11-15"),
            ("--until", "2023-11-14"),
            ("--until", "2023-11-13"),
            ("--since", "2023-11-14T22:13:21", "--until", "2023-11-14T22:13:22"),
        )
    }
    assert list(counts.values()) == [2, 0, 2, 0, 2, 0, 2]


async def test_usage_for_people_and_for_spreadsheets(cli: Cli) -> None:
    await make_usage(cli, "=cmd")
    assert cli.done("usage", "--by", "model").out == (
        "MODEL      REQUESTS  INPUT  CACHED  CACHE WRITE  OUTPUT     COST EUR\n"
        "=cmd              1    100      20            5      50  0.000000002\n"
        "demo/echo         1    100      20            5      50  1.000000001\n"
        "total             2    200      40           10     100  1.000000003\n"
    )
    rows = list(csv.DictReader(io.StringIO(cli.done("usage", "--by", "model", "--csv").out)))
    assert [row["model"] for row in rows] == ["'=cmd", "demo/echo"]
    assert [(row["cost"], row["cost_nano"]) for row in rows] == [
        ("0.000000002", "2"),
        ("1.000000001", "1000000001"),
    ]


def test_usage_takes_one_format(cli: Cli, alice: str) -> None:
    assert cli.run("usage", "--csv", "--json", "--account", alice).code == 2


def test_an_audit_proves_the_books(cli: Cli, alice: str) -> None:
    answer = cli.done("audit")
    assert answer.out == "accounts 1, entries 1, requests pending 0, interrupted 0\n"
    assert answer.err == "The books are in order.\n"
    report = cli.done("audit", "--json").json
    assert report == {
        "ok": True,
        "accounts": 1,
        "entries": 1,
        "pending": 0,
        "interrupted": 0,
        "unsettled": 0,
        "to_settle": [],
        "problems": [],
    }
    assert alice


def test_an_audit_of_wrong_books_exits_3(cli: Cli, alice: str) -> None:
    with sqlite3.connect(cli.database) as database:
        database.execute("UPDATE accounts SET balance_nano = balance_nano + 1")
    database.close()
    answer = cli.run("audit")
    assert answer.code == 3
    assert alice in answer.err
    assert answer.err.endswith("The books do not add up.\n")
    report = cli.run("audit", "--json")
    assert (report.code, report.json["ok"], len(report.json["problems"])) == (3, False, 1)


async def test_an_audit_lists_what_a_crash_cut_off(cli: Cli) -> None:
    """It can be settled with `account correct --request`; after that it is only counted."""
    place = make_place(cli.folder, credit_nano=10**9)
    cut = admission(700, id_="req_cut")
    async with open_ledger(place.path) as ledger:
        await ledger.wait_admitted(ledger.hold(find_key(ledger, place), cut))
    async with open_ledger(place.path):
        pass  # a start finds it
    answer = cli.done("audit")
    assert answer.out == (
        "accounts 1, entries 1, requests pending 0, interrupted 1\n"
        "\n"
        "INTERRUPTED  ACCOUNT  MODEL      PROVIDER   HELD EUR  STARTED UTC\n"
        "req_cut      a        demo/echo  demo      0.0000007  2023-11-14 22:13\n"
    )
    assert answer.err.startswith("Interrupted requests to settle: 1. Nothing was charged")
    report = cli.done("audit", "--json").json
    assert (report["interrupted"], report["unsettled"]) == (1, 1)
    assert report["to_settle"] == [
        {
            "id": "req_cut",
            "account": "a",
            "model": "demo/echo",
            "provider": "demo",
            "hold": "0.0000007",
            "hold_nano": 700,
            "started": "2023-11-14T22:13:20.000Z",
        }
    ]
    words = ("account", "correct", "a", "-0.0000004", "--note", "half of it came")
    cli.done(*words, "--request", "req_cut")
    report = cli.done("audit", "--json").json
    assert (report["interrupted"], report["unsettled"], report["to_settle"]) == (1, 0, [])
    assert "to settle" not in cli.done("audit").err
