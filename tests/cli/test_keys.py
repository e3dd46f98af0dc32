"""The verbs for keys, tokens, budgets and top-up codes: their effects, and what they print where."""

from __future__ import annotations

import re

import pytest

from gateway.admin import keys
from gateway.ledger.opening import open_books
from tests.support.cli import Cli

pytestmark = pytest.mark.usefixtures("alice")


def test_a_key_is_named_by_its_name_if_no_other_has_it(cli: Cli, alice: str) -> None:
    cli.done("account", "add", "bo")
    mine, _ = cli.add_key(alice, "--name", "laptop")
    other, _ = cli.add_key(alice, "--name", "ci")
    assert cli.done("key", "edit", "laptop", "--cap", "5", "--json").json["id"] == mine
    new = cli.done("key", "rotate", "laptop", "--json").json["id"]
    assert cli.done("key", "edit", "laptop", "--name", "pc", "--json").json["id"] == new
    theirs, _ = cli.add_key("bo", "--name", "ci")
    for verb in (("revoke",), ("rotate",), ("edit", "--cap", "1")):
        answer = cli.run("key", verb[0], "ci", *verb[1:])
        listed = f"{other} of alice, {theirs} of bo"
        assert answer.err == (
            f"python -m gateway: 2 keys are named 'ci'; give the id of one: {listed}\n"
        )
        assert (answer.code, answer.out) == (1, "")
    assert cli.done("key", "revoke", other, "--json").json["id"] == other
    assert cli.done("key", "revoke", "ci", "--json").json["id"] == theirs
    assert cli.run("key", "revoke", "ci").code == 1, "none of them works any more"


def test_of_many_keys_of_a_name_ten_are_listed(cli: Cli, alice: str) -> None:
    for _ in range(11):
        cli.add_key(alice, "--name", "ci")
    answer = cli.run("key", "revoke", "ci")
    assert answer.err.count(" of alice, ") == 10
    assert answer.err.endswith(", 1 more\n")


def test_an_id_is_never_taken_for_a_name(cli: Cli, alice: str) -> None:
    mine, _ = cli.add_key(alice)
    cli.add_key(alice, "--name", mine)
    assert cli.done("key", "revoke", mine, "--json").json["id"] == mine


def test_wrong_budgets_are_explained(cli: Cli, alice: str) -> None:
    cli.done("account", "add", "bo")
    cli.done("budget", "add", "bo", "theirs", "1/day")
    for words, code, said in (
        (("budget", "add", alice, "team", "5"), 2, "'5' is not an amount and a period"),
        (("budget", "add", alice, "team", "5/year"), 2, "10/day, 10/week, 10/month"),
        (("budget", "add", alice, "team", "0/day"), 2, "is not above 0"),
        (("budget", "add", alice, "7", "5/day"), 1, "must have a letter"),
        (("budget", "edit", "theirs"), 1, "nothing to change"),
        (("key", "add", alice, "--budget", "theirs"), 5, "there is no budget 'theirs'"),
        (("key", "add", alice, "--budget", "/day"), 2, "--budget"),
    ):
        refused = cli.run(*words)
        assert (refused.code, refused.out) == (code, ""), words
        assert said in refused.err, words


# ---- top-up codes --------------------------------------------------------------------------------


def redeem_by_hand(cli: Cli, account: str, code: str) -> None:
    with open_books(cli.database) as books:
        keys.redeem(books, account, code)


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
