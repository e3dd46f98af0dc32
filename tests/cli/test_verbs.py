"""The verbs over a real database: their effects, and what they print on which stream."""

from __future__ import annotations

import csv
import io
import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from gateway import apikeys
from gateway.ledger import open_ledger
from tests.ledger.kit import admission, charge, find_key, make_place, settlement
from tests.support.cli import Cli, make_cli

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return make_cli(tmp_path, capsys)


@pytest.fixture
def alice(cli: Cli) -> str:
    cli.done("account", "add", "alice", "--credit", "20")
    return "alice"


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
        **dict.fromkeys(("models", "requests_per_minute", "tokens_per_minute", "concurrency")),
    }
    listed = cli.done("account", "list", "--json").json
    assert [one["name"] for one in listed] == ["alice"]


def test_accounts_are_listed_for_people(cli: Cli, alice: str) -> None:
    cli.done("account", "add", "bo", "--credit", "1234.5", "--operator")
    cli.done("account", "suspend", alice)
    lines = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "WHEN", cli.done("account", "list").out)
    assert lines == (
        "NAME   BALANCE EUR  HELD EUR  STATE             LIMITS  CREATED UTC\n"
        "alice        20.00      0.00  suspended         -       WHEN\n"
        "bo         1234.50      0.00  active, operator  -       WHEN\n"
    )


def test_an_account_s_limits_are_set_edited_and_shown(cli: Cli) -> None:
    made = cli.done("account", "add", "bo", "--rpm", "5", "--models", "demo/echo,b", "--json")
    assert (made.json["requests_per_minute"], made.json["models"]) == (5, ["b", "demo/echo"])
    assert "has no model b" in made.err
    edit = ("account", "edit", "bo", "--concurrency", "0", "--rpm", "none", "--json")
    edited = cli.done(*edit).json
    names = ("requests_per_minute", "tokens_per_minute", "concurrency")
    assert [edited[name] for name in names] == [None, None, 0]
    assert edited["models"] == ["b", "demo/echo"], "what is left out does not change"
    shown = cli.done("account", "show", "bo").out
    assert "limits     unlimited at once\n" in shown
    assert "models     b, demo/echo\n" in shown
    assert cli.run("account", "edit", "bo").code == 1


def test_a_role_changes_but_one_operator_stays(cli: Cli, alice: str) -> None:
    cli.done("account", "edit", alice, "--role", "operator")
    answer = cli.run("account", "edit", alice, "--role", "holder")
    assert (answer.code, answer.out) == (1, "")
    assert "'alice' is the last operator" in answer.err
    cli.done("account", "add", "bo", "--operator")
    assert not cli.done("account", "edit", alice, "--role", "holder", "--json").json["operator"]
    assert "It was the last operator" in cli.done("account", "suspend", "bo").err
    assert "operator" not in cli.done("account", "suspend", alice).err


def test_an_account_is_signed_out(cli: Cli, alice: str) -> None:
    answer = cli.done("account", "end-sessions", alice, "--json")
    assert answer.json == {"account": "alice", "ended": 0}
    assert answer.err.startswith("Account alice is signed out; sessions ended: 0.")
    assert cli.run("account", "end-sessions", "nobody").code == 5


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


# ---- keys ----------------------------------------------------------------------------------------


def test_a_key_is_alone_on_stdout_and_shown_once(cli: Cli, alice: str) -> None:
    answer = cli.done("key", "add", alice)
    secret = answer.out.removesuffix("\n")
    assert apikeys.is_well_formed(secret)
    assert re.fullmatch(r"Key key_\w+ of account alice, shown this once:\n", answer.err)
    for words in (("key", "list"), ("key", "list", "--json"), ("account", "show", alice)):
        assert secret not in cli.done(*words).out
    assert secret.encode() not in cli.database.read_bytes()


def test_a_key_carries_its_terms(cli: Cli, alice: str) -> None:
    words = "--name l --expires 2999-12-31 --models demo/echo,b --rpm 0 --tpm 2 --concurrency 3"
    made = cli.done("key", "add", alice, *words.split(), "--cap", "1.5", "--json")
    assert "has no model b. Check the spelling.\n" in made.err
    assert "demo/echo" not in made.err
    key = made.json
    assert apikeys.is_well_formed(key.pop("secret"))
    assert re.fullmatch(r"sk-ru-…\w{4}", key["display"])
    assert (key["account"], key["name"], key["models"]) == (alice, "l", ["b", "demo/echo"])
    limits = [key[name] for name in ("requests_per_minute", "tokens_per_minute", "concurrency")]
    assert limits == [0, 2, 3]
    assert (key["cap"], key["cap_nano"]) == ("1.50", 1_500_000_000)
    assert (key["spent"], key["spent_nano"]) == ("0.00", 0)
    assert (key["expires"], key["revoked"]) == ("2999-12-31T00:00:00.000Z", None)
    assert cli.done("key", "list", "--json").json == [key]
    row = cli.done("key", "list").out.splitlines()[1]
    assert "until 2999-12-31 00:00" in row
    assert "unlimited requests/min, 2 tokens/min, 3 at once  b, demo/echo" in row


def test_keys_are_listed_by_account(cli: Cli, alice: str) -> None:
    cli.done("account", "add", "bo")
    mine, _ = cli.add_key(alice)
    theirs, _ = cli.add_key("bo")
    assert {key["id"] for key in cli.done("key", "list", "--json").json} == {mine, theirs}
    assert [key["id"] for key in cli.done("key", "list", "bo", "--json").json] == [theirs]


def test_a_key_is_rotated_with_a_grace(cli: Cli, alice: str) -> None:
    old_id, old = cli.add_key(alice, "--name", "ci")
    answer = cli.done("key", "rotate", old_id, "--grace", "1h")
    new = answer.out.removesuffix("\n")
    assert apikeys.is_well_formed(new)
    assert new != old
    keys = {key["id"]: key for key in cli.done("key", "list", "--json").json}
    assert ISO.fullmatch(keys.pop(old_id)["expires"])
    (successor,) = keys.values()
    assert (successor["name"], successor["expires"]) == ("ci", None)


def test_a_key_rotated_without_grace_has_expired(cli: Cli, alice: str) -> None:
    key_id, _ = cli.add_key(alice)
    cli.done("key", "rotate", key_id)
    row = next(line for line in cli.done("key", "list").out.splitlines() if key_id in line)
    assert "  expired " in row


def test_a_key_is_edited_and_what_is_not_named_stays(cli: Cli, alice: str) -> None:
    key_id, _ = cli.add_key(alice, "--name", "n", "--cap", "5", "--models", "demo/echo")
    answer = cli.done("key", "edit", key_id, "--cap", "7.5", "--models", "demo/echo,b")
    assert answer.out == ""
    assert answer.err.splitlines() == [
        f"Note: {cli.config} has no model b. Check the spelling.",
        f"Key {key_id} of account alice is changed.",
    ]
    (key,) = cli.done("key", "list", "--json").json
    assert (key["name"], key["cap"], key["models"]) == ("n", "7.50", ["b", "demo/echo"])
    words = "--name none --cap none --expires 2999-12-31 --models none --json"
    key = cli.done("key", "edit", key_id, *words.split()).json
    assert (key["name"], key["cap"], key["models"]) == ("", None, None)
    assert key["expires"] == "2999-12-31T00:00:00.000Z"
    assert cli.done("key", "edit", key_id, "--expires", "none", "--json").json["expires"] is None


def test_an_edit_of_nothing_or_of_a_dead_key_is_refused(cli: Cli, alice: str) -> None:
    key_id, _ = cli.add_key(alice)
    assert cli.run("key", "edit", key_id).code == 1
    cli.done("key", "revoke", key_id)
    answer = cli.run("key", "edit", key_id, "--name", "n")
    assert (answer.code, answer.out) == (1, "")
    assert f"key {key_id} is revoked" in answer.err


def test_a_replaced_key_names_the_one_that_replaced_it(cli: Cli, alice: str) -> None:
    old_id, _ = cli.add_key(alice)
    new_id = cli.done("key", "rotate", old_id, "--grace", "1h", "--json").json["id"]
    keys = {key["id"]: key for key in cli.done("key", "list", "--json").json}
    assert [keys[one]["replaced_by"] for one in (old_id, new_id)] == [new_id, None]
    assert cli.run("key", "edit", old_id, "--expires", "none").code == 1


def test_a_key_is_revoked(cli: Cli, alice: str) -> None:
    key_id, _ = cli.add_key(alice)
    answer = cli.done("key", "revoke", key_id)
    assert (answer.out, answer.err) == ("", f"Key {key_id} of account alice is revoked.\n")
    assert ISO.fullmatch(cli.done("key", "revoke", key_id, "--json").json["revoked"])
    assert "  revoked " in cli.done("key", "list").out


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
