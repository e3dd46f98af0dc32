"""The verbs for keys over a real database: their effects, and what they print on which stream."""

from __future__ import annotations

import re

from gateway import apikeys
from tests.support.cli import Cli

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
