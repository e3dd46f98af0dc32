"""The verbs for top-up codes: what they print, and on which stream."""

from __future__ import annotations

import re

import pytest

from gateway.admin import accounts, codes
from gateway.cli.command import find_actor
from tests.support.cli import Cli


@pytest.fixture(autouse=True)
def alice(cli: Cli) -> None:
    cli.done("account", "add", "alice")


def redeem_by_hand(cli: Cli, account: str, code: str) -> None:
    with accounts.open_books(cli.database) as books:
        codes.redeem(books, account, code)


def test_codes_alone_are_on_stdout(cli: Cli) -> None:
    answer = cli.done("code", "make", "--amount", "5", "--count", "3")
    lines = answer.out.splitlines()
    assert [len(set(line.split("-"))) for line in lines] == [codes.GROUPS] * 3
    assert re.fullmatch(r"Batch batch_\w+: 3 of 5\.00 EUR, shown this once:\n", answer.err)
    for words in (("code", "list"), ("code", "list", "--json"), ("account", "show", "alice")):
        assert not any(line in cli.done(*words).out for line in lines)
    assert not any(line.encode() in cli.database.read_bytes() for line in lines)


def test_codes_in_json(cli: Cli) -> None:
    words = ("--amount", "0.5", "--expires", "2999-12-31", "--note", "spring", "--json")
    made = cli.done("code", "make", *words).json
    assert (made["amount"], made["amount_nano"]) == ("0.50", 500_000_000)
    assert made["expires"] == "2999-12-31T00:00:00.000Z"
    (code,) = made["codes"]
    (listed,) = cli.done("code", "list", "--json").json
    assert listed == {
        "id": listed["id"],
        "batch": made["batch"],
        "display": f"····-{code[-4:]}",
        "amount": "0.50",
        "amount_nano": 500_000_000,
        "status": "open",
        "note": "spring",
        "created": made["created"],
        "created_by": find_actor({}).name,
        "expires": "2999-12-31T00:00:00.000Z",
        "redeemed": None,
        "redeemed_by": None,
        "voided": None,
    }
    redeem_by_hand(cli, "alice", code)
    (listed,) = cli.done("code", "list", "--status", "redeemed", "--json").json
    assert listed["redeemed_by"] == "alice"
    assert cli.done("code", "list", "--status", "open", "--json").json == []
    (entry,) = cli.done("account", "show", "alice", "--json").json["entries"]
    assert (entry["kind"], entry["amount"]) == ("code", "0.50")


def test_codes_are_listed_for_people(cli: Cli) -> None:
    first, second = cli.done("code", "make", "--amount", "5", "--count", "2").out.split()
    last = cli.done("code", "make", "--amount", "12.5", "--expires", "2999-12-31").out.strip()
    redeem_by_hand(cli, "alice", first)
    shown = cli.done("code", "list").out
    shown = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "WHEN", shown)
    shown = re.sub(r"(code|batch)_\w+", lambda found: found[1].upper(), shown)
    assert [re.sub(r" +", " ", line) for line in shown.splitlines()] == [
        "ID BATCH CODE AMOUNT EUR STATE BY NOTE",
        f"CODE BATCH ····-{last[-4:]} 12.50 until WHEN - -",
        f"CODE BATCH ····-{second[-4:]} 5.00 open - -",
        f"CODE BATCH ····-{first[-4:]} 5.00 redeemed WHEN alice -",
    ]


def test_codes_are_voided_by_their_own_id_or_their_batchs(cli: Cli) -> None:
    made = cli.done("code", "make", "--amount", "5", "--count", "3", "--json").json
    ids = [one["id"] for one in cli.done("code", "list", "--json").json]
    answer = cli.done("code", "void", ids[0], "--json")
    assert (answer.json["id"], answer.json["status"]) == (ids[0], "void")
    assert cli.done("code", "void", "--batch", made["batch"], "--json").json == {"voided": 2}
    assert cli.run("code", "void", made["batch"]).code == 5
    redeemable = cli.done("code", "make", "--amount", "5").out.strip()
    redeem_by_hand(cli, "alice", redeemable)
    (used,) = cli.done("code", "list", "--status", "redeemed", "--json").json
    refused = cli.run("code", "void", used["id"])
    assert (refused.code, refused.out) == (1, "")
    assert "redeemed by 'alice'" in refused.err
