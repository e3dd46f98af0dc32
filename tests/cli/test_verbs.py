"""The verbs over a real database: their effects, and what they print on which stream."""

from __future__ import annotations

import csv
import io
import re
import sqlite3
from dataclasses import replace
from typing import Final

import pytest

from gateway import apikeys
from gateway.admin import reload as asking
from gateway.cli.actor import find_actor
from gateway.exit_codes import ExitCode
from gateway.ledger import open_ledger
from tests.ledger.kit import admission, charge, find_key, make_place, settlement
from tests.support.cli import Cli
from tests.support.stand_in import PASSWORD, SHOWN, URL, stand_in

NO_COSTS: Final = {
    "provider_cost": None,
    "provider_cost_nano": None,
    "margin": None,
    "margin_nano": None,
    "costed_requests": 0,
    "reported_cost": None,
    "reported_cost_nano": None,
    "reported_excess": None,
    "reported_excess_nano": None,
    "reported_requests": 0,
}


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
    for by, names in (
        ("day", {"day": "2023-11-14"}),
        ("model", {"model": "demo/echo"}),
        ("account", {"account": "a"}),
        ("key", {"key": key_id, "account": "a", "key_name": ""}),
    ):
        assert cli.done("usage", "--by", by, "--json").json == [
            {
                **names,
                "requests": 2,
                "input_tokens": 200,
                "cached_input_tokens": 40,
                "cache_write_tokens": 10,
                "output_tokens": 100,
                "cost": "1.000000003",
                "cost_nano": 1_000_000_003,
                **NO_COSTS,
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


def test_a_period_that_ends_before_it_begins_is_refused(cli: Cli, alice: str) -> None:
    answer = cli.run("usage", "--account", alice, "--since", "today", "--until", "7d")
    assert (answer.code, answer.out) == (1, "")
    assert "the period ends before it begins" in answer.err


async def test_usage_for_people_and_for_spreadsheets(cli: Cli) -> None:
    await make_usage(cli, "=cmd")
    assert cli.done("usage", "--by", "model").out == (
        "MODEL      REQUESTS  INPUT  OF IT CACHED  OF IT WRITTEN  OUTPUT     COST EUR\n"
        "=cmd              1    125            20              5      50  0.000000002\n"
        "demo/echo         1    125            20              5      50  1.000000001\n"
        "total             2    250            40             10     100  1.000000003\n"
    )
    rows = list(csv.DictReader(io.StringIO(cli.done("usage", "--by", "model", "--csv").out)))
    assert [row["model"] for row in rows] == ["'=cmd", "demo/echo"]
    assert [(row["cost"], row["cost_nano"]) for row in rows] == [
        ("0.000000002", "2"),
        ("1.000000001", "1000000001"),
    ]


async def test_usage_tells_operators_what_providers_bill(cli: Cli) -> None:
    """The margin is of those requests whose cost is known."""
    place = make_place(cli.folder)
    async with open_ledger(place.path) as ledger:
        key = find_key(ledger, place)
        await charge(ledger, key, 10)
        billed = settlement(100, provider_cost_nano=60, reported_cost_nano=75)
        await ledger.settle(ledger.hold(key, replace(admission(), model="large")), billed)
    lines = cli.done("usage", "--by", "model").out.splitlines()
    header, *rows = [re.split("  +", line.strip())[-6:] for line in lines]
    assert header == ["COST EUR", "WITH COST", "PROVIDER COST", "MARGIN", "REPORTED", "EXCESS"]
    billed_cells = ["1", "0.00000006", "0.00000004", "0.000000075", "0.000000015"]
    assert rows == [
        ["0.00000001", "0", "-", "-", "-", "-"],
        ["0.0000001", *billed_cells],
        ["0.00000011", *billed_cells],
    ]
    plain, large = cli.done("usage", "--by", "model", "--json").json
    assert {name: plain[name] for name in NO_COSTS} == NO_COSTS
    assert (large["provider_cost_nano"], large["margin_nano"]) == (60, 40)
    assert (large["reported_cost_nano"], large["reported_excess_nano"]) == (75, 15)
    (_, row) = csv.DictReader(io.StringIO(cli.done("usage", "--by", "model", "--csv").out))
    assert (row["provider_cost"], row["margin_nano"]) == ("0.00000006", "40")
    cli.done("audit")


async def test_who_spent_most_stands_first(cli: Cli) -> None:
    """In whole days, and in parts of one, which are summed from the requests themselves."""
    place = make_place(cli.folder)
    cli.done("account", "add", "zoe", "--credit", "5")
    secret = cli.done("key", "add", "zoe", "--name", "laptop").out.strip()
    async with open_ledger(place.path) as ledger:
        await charge(ledger, find_key(ledger, place), 5)
        key = ledger.find_key(apikeys.digest(secret))
        assert key is not None
        await charge(ledger, key, 6)
    for part in ((), ("--since", "2023-11-14T22:13:00")):
        rows = cli.done("usage", "--by", "account", "--json", *part).json
        assert [(row["account"], row["cost_nano"]) for row in rows] == [("zoe", 6), ("a", 5)]
        rows = cli.done("usage", "--by", "key", "--json", *part).json
        assert {(row["account"], row["key_name"], row["cost_nano"]) for row in rows} == {
            ("zoe", "laptop", 6),
            ("a", "", 5),
        }
    assert "ACCOUNT  NAME" in cli.done("usage", "--by", "key").out
    (header, *_) = cli.done("usage", "--by", "key", "--csv").out.splitlines()
    assert header.startswith("key,account,key_name,requests,")


def test_usage_takes_one_format(cli: Cli, alice: str) -> None:
    assert cli.run("usage", "--csv", "--json", "--account", alice).code == 2


def test_events_are_listed_the_latest_first(cli: Cli, alice: str) -> None:
    cli.add_key(alice, "--name", "ci")
    cli.done("account", "suspend", alice)
    listed = cli.done("events", "--json").json
    assert [one["action"] for one in listed] == ["account.suspend", "key.add", "account.add"]
    assert {one["actor"] for one in listed} == {find_actor({}).name}
    lines = cli.done("events", "--search", "KEY.add", "--since", "1h").out.splitlines()
    assert len(lines) == 2
    assert re.search(
        rf"  {re.escape(find_actor({}).name)}  key\.add  alice    key_\w+  -     ci$", lines[1]
    )
    latest = cli.done("events", "--limit", "1", "--json")
    assert len(latest.json) == 1
    assert latest.err == "These are the latest 1 events; --limit N shows more.\n"
    assert cli.done("events", "--limit", "3").err == ""
    assert cli.done("events", "--since", "2999-01-01", "--json").json == []


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


def test_a_reload_asks_the_process_that_serves(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer decides the exit code; the file itself may be broken here."""
    cli.done("account", "add", "alice")
    cli.config.write_text("[models.x")
    assert cli.run("reload").code == ExitCode.UNAVAILABLE
    monkeypatch.setattr("gateway.cli.verbs.find_server", lambda _: 7)
    answers = {
        asking.Answer(0, True, "models: 1 added (x)"): (ExitCode.OK, "models: 1 added (x)\n"),
        asking.Answer(0, False, "a typo"): (ExitCode.CONFIG, "Refused, nothing changed: a typo\n"),
    }
    for answer, (code, said) in answers.items():
        monkeypatch.setattr(asking, "ask", lambda _, pid: answer if pid == 7 else None)  # noqa: B023
        ran = cli.run("reload", "--json")
        assert (ran.code, ran.err) == (code, said)
        at = "1970-01-01T00:00:00.000Z"
        assert ran.json == {"ok": answer.ok, "at": at, "words": answer.words}
    monkeypatch.setattr(asking, "ask", lambda *_: None)
    ran = cli.run("reload", "--json")
    assert (ran.code, ran.out) == (ExitCode.UNAVAILABLE, "")
    assert "process 7) was asked, but did not answer within 10 s" in ran.err


def test_a_reload_may_need_another_user(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    cli.done("account", "add", "alice")
    monkeypatch.setattr("gateway.cli.verbs.find_server", lambda _: 7)
    monkeypatch.setattr(asking, "ask", refuse)
    ran = cli.run("reload")
    assert (ran.code, ran.err.count("Use sudo.")) == (ExitCode.UNAVAILABLE, 1)


def test_backups_of_a_database_elsewhere_are_its_own(cli: Cli) -> None:
    """Nothing is opened, so no server has to run."""
    cli.config.write_text(f'[storage]\nurl = "{URL}"\n')
    ran = cli.run("backup", str(cli.folder / "copy.db"))
    assert (ran.code, ran.out) == (ExitCode.FAILED, "")
    assert (
        f"{SHOWN} is not copied to a file: backups of a database of PostgreSQL are its own"
        in ran.err
    )
    assert "pg_dump" in ran.err
    assert PASSWORD not in ran.err
    assert not (cli.folder / "copy.db").exists()


def test_a_reload_asks_the_node_of_this_machine(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.config.write_text(f'[storage]\nurl = "{URL}"\n')
    stand_in(monkeypatch, cli.folder / "behind.db")
    cli.done("account", "add", "alice")
    ran = cli.run("reload")
    assert ran.code == ExitCode.UNAVAILABLE
    assert ran.err.startswith(f"No gateway serves from {SHOWN} on this machine. If [storage] has")
    stand_in(monkeypatch, cli.folder / "behind.db", pid=7)
    monkeypatch.setattr(asking, "ask", lambda _, pid: asking.Answer(0, pid == 7, "nothing changed"))
    assert cli.done("reload").err == "nothing changed\n"


def test_a_database_elsewhere_without_a_ledger_is_told_by_its_address(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.config.write_text(f'[storage]\nurl = "{URL}"\n')
    stand_in(monkeypatch, cli.folder / "behind.db")
    ran = cli.run("account", "list")
    assert ran.code == ExitCode.NOT_FOUND
    assert f"there is no ledger in {SHOWN}; 'serve' or" in ran.err
