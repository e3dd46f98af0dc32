"""The verbs over a real database: their effects, and what they print on which stream."""

from __future__ import annotations

import csv
import io
import re
import sqlite3
from dataclasses import replace

import pytest

from gateway.ledger import open_ledger
from tests.ledger.kit import admission, charge, find_key, make_place, settlement
from tests.support.cli import Cli

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def make_usage(cli: Cli, second_model: str = "demo/echo") -> str:
    """Make two charges of account `a` and return the id of its key."""
    place = make_place(cli.folder)
    async with open_ledger(place.path) as ledger:
        key = find_key(ledger, place)
        await charge(ledger, key, 1_000_000_001)
        second = ledger.hold(key, replace(admission(), model=second_model))
        await ledger.settle(second, settlement(2))
    return place.key_id


# ---- accounts ------------------------------------------------------------------------------------


def test_an_account_is_made_with_its_database(cli: Cli) -> None:
    answer = cli.done("account", "add", "alice", "--credit", "20")
    assert answer.out == ""
    assert answer.err == "Account alice added; its balance is 20.00 EUR.\n"
    assert cli.database.stat().st_mode & 0o777 == 0o600


def test_an_account_in_json(cli: Cli) -> None:
    made = cli.done("account", "add", "alice", "--credit", "0.000000001", "--operator", "--json")
    account = made.json
    assert ISO.fullmatch(account.pop("created"))
    assert account == {
        "id": 1,
        "name": "alice",
        "operator": True,
        "suspended": False,
        "balance": "0.000000001",
        "balance_nano": 1,
        "held": "0.00",
        "held_nano": 0,
    }
    listed = cli.done("account", "list", "--json").json
    assert [one["name"] for one in listed] == ["alice"]


def test_accounts_are_listed_for_people(cli: Cli, alice: str) -> None:
    cli.done("account", "add", "bo", "--credit", "1234.5", "--operator")
    cli.done("account", "suspend", alice)
    lines = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "WHEN", cli.done("account", "list").out)
    assert lines == (
        "NAME   BALANCE EUR  HELD EUR  STATE             CREATED UTC\n"
        "alice        20.00      0.00  suspended         WHEN\n"
        "bo         1234.50      0.00  active, operator  WHEN\n"
    )


def test_a_credit_is_added_once_per_idempotency_key(cli: Cli, alice: str) -> None:
    for _ in range(2):
        answer = cli.done("account", "credit", alice, "5", "--idempotency-key", "inv-1")
        assert answer.err == "Account alice: credit 5.00; its balance is 25.00 EUR.\n"
    entry = cli.done("account", "credit", alice, "0.1", "--note", "a gift", "--json").json
    assert (entry["kind"], entry["note"], entry["request_id"]) == ("credit", "a gift", None)
    assert (entry["amount"], entry["amount_nano"]) == ("0.10", 100_000_000)
    assert (entry["balance_after"], entry["balance_after_nano"]) == ("25.10", 25_100_000_000)


@pytest.mark.parametrize(
    ("amount", "balance"),
    [("-0.5", "19.50"), ("-20", "0.00"), ("-21", "-1.00"), ("+0.5", "20.50"), ("1", "21.00")],
)
def test_a_correction_goes_either_way(cli: Cli, alice: str, amount: str, balance: str) -> None:
    cli.done("account", "add", "bo", "--credit", "20")
    cli.done("account", "correct", alice, amount, "--note", "n")
    cli.done("account", "correct", "--note", "n", "bo", amount)
    accounts = cli.done("account", "list", "--json").json
    assert [account["balance"] for account in accounts] == [balance, balance]


def test_a_correction_is_made_once_per_idempotency_key(cli: Cli, alice: str) -> None:
    words = ("account", "correct", alice, "-5", "--note", "n", "--idempotency-key", "inv-1")
    for _ in range(2):
        assert (
            cli.done(*words).err == "Account alice: correction -5.00; its balance is 15.00 EUR.\n"
        )
    assert cli.run("account", "correct", alice, "-6", *words[4:]).code == 1


def test_a_correction_says_why(cli: Cli, alice: str) -> None:
    assert cli.run("account", "correct", alice, "1").code == 2
    assert cli.run("account", "correct", alice, "0", "--note", "n").code == 1


def test_an_account_is_suspended_and_resumed(cli: Cli, alice: str) -> None:
    assert cli.done("account", "suspend", alice, "--json").json["suspended"] is True
    assert cli.done("account", "show", alice, "--json").json["suspended"] is True
    assert cli.done("account", "resume", alice, "--json").json["suspended"] is False


def test_an_account_is_shown_with_its_keys_and_entries(cli: Cli, alice: str) -> None:
    key_id, _ = cli.add_key(alice, "--name", "laptop")
    cli.done("account", "correct", alice, "-0.5", "--note", "put right")
    shown = cli.done("account", "show", alice).out
    assert "balance    19.50 EUR\n" in shown
    assert "available  19.50 EUR\n" in shown
    assert re.search(rf"^{key_id}  alice    laptop  sk-ru-…\w{{4}}  active ", shown, re.MULTILINE)
    assert re.search(r"correction +-0\.50 +19\.50  put right$", shown, re.MULTILINE)
    detail = cli.done("account", "show", alice, "--json").json
    assert [key["id"] for key in detail["keys"]] == [key_id]
    assert [entry["amount"] for entry in detail["entries"]] == ["-0.50", "20.00"]


# ---- usage and audit -----------------------------------------------------------------------------


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
