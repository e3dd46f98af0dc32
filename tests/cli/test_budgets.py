"""The verbs for budgets over a real database, and the budgets of keys."""

from __future__ import annotations

import re

from tests.support.cli import Cli


def test_a_budget_is_added_listed_edited_and_removed(cli: Cli, alice: str) -> None:
    added = cli.done("budget", "add", alice, "team", "100/month")
    assert added.out == ""
    assert added.err == "Budget 1 'team' of account alice, 100.00 EUR a month, is added.\n"
    header, row = cli.done("budget", "list").out.splitlines()
    titles = "ID ACCOUNT NAME AMOUNT EUR PER SPENT EUR REMAINING EUR RESETS UTC KEYS"
    assert " ".join(header.split()) == titles
    assert re.fullmatch(
        r"1 +alice +team +100\.00 +month +0\.00 +100\.00 +\d{4}-\d\d-01 00:00 +0", row
    )
    assert "'crew'" in cli.done("budget", "edit", "team", "5/week", "--name", "crew").err
    shown = cli.done("budget", "edit", "1", "6/day", "--json").json
    assert (shown["id"], shown["name"], shown["account"], shown["keys"]) == (1, "crew", alice, 0)
    assert (shown["amount"], shown["amount_nano"], shown["period"]) == ("6.00", 6 * 10**9, "day")
    assert (shown["spent"], shown["remaining"]) == ("0.00", "6.00")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT00:00:00\.000Z", shown["resets"])
    assert cli.done("budget", "list", alice, "--json").json == [shown]
    assert cli.done("budget", "remove", "crew").err.endswith("is removed.\n")
    assert cli.done("budget", "list", "--json").json == []


def test_a_key_spends_from_a_budget_of_its_own_or_a_shared_one(cli: Cli, alice: str) -> None:
    cli.done("budget", "add", alice, "team", "100/month")
    own_id, _ = cli.add_key(alice, "--budget", "5/day")
    shared_id, _ = cli.add_key(alice, "--budget", "team")
    found = {key["id"]: key["budget"] for key in cli.done("key", "list", "--json").json}
    assert (found[own_id]["name"], found[own_id]["amount"]) == (None, "5.00")
    assert (found[shared_id]["name"], found[shared_id]["period"]) == ("team", "month")
    rows = {line.split()[0]: line for line in cli.done("key", "list").out.splitlines()}
    assert "  0.00 of 5.00 a day  " in rows[own_id]
    assert "  0.00 of 100.00 a month, team  " in rows[shared_id]
    assert [one["keys"] for one in cli.done("budget", "list", "--json").json] == [1, 1]
    refused = cli.run("budget", "remove", "team")
    assert (refused.code, refused.out) == (1, "")
    assert "1 key spends from the budget 'team'" in refused.err
    moved = cli.done("key", "edit", own_id, "--budget", "team", "--json").json
    assert moved["budget"]["name"] == "team"
    cleared = cli.done("key", "edit", own_id, "--budget", "none", "--json").json
    assert cleared["budget"] is None
    again = cli.done("key", "edit", own_id, "--budget", "0.5/week", "--json").json
    assert (again["budget"]["amount_nano"], again["budget"]["period"]) == (500_000_000, "week")


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
