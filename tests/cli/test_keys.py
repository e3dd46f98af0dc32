"""The verbs for keys over a real database: their effects, and what they print on which stream."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gateway import apikeys
from gateway.admin.views import describe_key_state
from gateway.exit_codes import ExitCode
from gateway.ledger.key_records import KeyTerms, KeyView
from tests.support.cli import Cli
from tests.support.rows import each_row

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


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


def test_the_limits_of_a_key_are_edited_one_by_one(cli: Cli, alice: str) -> None:
    names = ("requests_per_minute", "tokens_per_minute", "concurrency")
    key_id, _ = cli.add_key(alice, "--rpm", "5", "--tpm", "6")
    key = cli.done("key", "edit", key_id, "--rpm", "0", "--concurrency", "7", "--json").json
    assert [key[name] for name in names] == [0, 6, 7]
    row = cli.done("key", "list").out.splitlines()[1]
    assert "unlimited requests/min, 6 tokens/min, 7 at once" in row
    words = "--rpm none --tpm none --concurrency none --json"
    key = cli.done("key", "edit", key_id, *words.split()).json
    assert [key[name] for name in names] == [None, None, None]


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


@pytest.mark.parametrize("verb", ["edit --rpm 5", "rotate", "revoke"])
def test_a_key_itself_is_neither_taken_nor_repeated(cli: Cli, alice: str, verb: str) -> None:
    key_id, secret = cli.add_key(alice)
    name, *options = verb.split()
    refused = cli.run("key", name, secret, *options)
    assert (refused.code, refused.out) == (ExitCode.FAILED, "")
    assert "not the key itself" in refused.err
    assert secret not in refused.err
    assert cli.done("key", "list", "--json").json[0]["id"] == key_id


def test_an_id_is_never_taken_for_a_name(cli: Cli, alice: str) -> None:
    mine, _ = cli.add_key(alice)
    cli.add_key(alice, "--name", mine)
    assert cli.done("key", "revoke", mine, "--json").json["id"] == mine


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


YEAR_9999_MS = 253_402_300_799_000
KEY = KeyView("key_1", "a", "sk-ru-…a1b2", KeyTerms(), 5, 0, None, None, None)


@each_row(
    ("key", "state"),
    [
        (KEY, "active"),
        (replace(KEY, terms=KeyTerms(cap_nano=6)), "active"),
        (replace(KEY, terms=KeyTerms(cap_nano=5)), "cap spent"),
        (replace(KEY, terms=KeyTerms(expires_ms=0)), "expired 1970-01-01 00:00"),
        (replace(KEY, terms=KeyTerms(expires_ms=YEAR_9999_MS)), "until 9999-12-31 23:59"),
        (replace(KEY, terms=KeyTerms(expires_ms=0), revoked_ms=60_000), "revoked 1970-01-01 00:01"),
    ],
)
def test_the_state_of_a_key_is_its_status_and_when_it_began_or_ends(
    key: KeyView, state: str
) -> None:
    assert describe_key_state(key) == state
