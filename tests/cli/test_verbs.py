"""The verbs of the command line and their examples."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import pytest

from gateway.cli.verbs import PROGRAM, VERBS, WORDS, load_verbs, parse
from tests.support.cli import Cli

load_verbs()


# ---- grammar and help ----------------------------------------------------------------------------


def test_these_verbs_and_no_others_exist() -> None:
    assert sorted(VERBS) == sorted([
        "serve", "check", "reload", "audit", "events", "backup", "export", "import", "unit",
        "account add", "account edit", "account list", "account show", "account credit", "account correct",
        "account suspend", "account resume", "account passwd", "account signin-link",
        "account remove-totp", "account end-sessions",
        "key add", "key edit", "key list", "key rotate", "key revoke",
        "budget add", "budget list", "budget edit", "budget remove",
        "code make", "code list", "code void",
        "token add", "token list", "token revoke",
        "price check", "price propose",
        "usage", "calls", "receipt", "providers", "alerts list", "alerts test", "refusals",
    ])  # fmt: skip


def test_no_verb_serves() -> None:
    for words in ([], ["--config", "x.toml"]):
        assert parse(words).verb.path == "serve"


def test_every_example_can_be_typed() -> None:
    for verb in VERBS.values():
        for example in verb.examples:
            command = re.sub(r"^\w+=\$\((.*)\)$", r"\1", example).removeprefix(f"{PROGRAM} ")
            words = shlex.split(re.split(" [<>] ", command)[0])
            assert parse(words).verb is verb


def test_every_reading_verb_answers_in_json() -> None:
    reading = {
        "check",
        "audit",
        "events",
        "account list",
        "account show",
        "key list",
        "code list",
        "usage",
        "budget list",
        "calls",
    }
    named = {"account show", "price check", "price propose"}
    for path in reading | named:
        words = [*path.split(), *(["x"] if path in named else []), "--json"]
        assert parse(words).json is True


def test_help_begins_with_what_it_is_for_and_examples(cli: Cli) -> None:
    for path in {*VERBS, *WORDS, ""}:
        answer = cli.done(*path.split(), "--help")
        lines = answer.out.splitlines()
        assert lines[0].endswith("."), path
        assert lines[2] == "examples:", path
        assert lines[3].startswith(f"  {PROGRAM} "), path
        assert answer.out.index("examples:") < answer.out.index("usage:"), path


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["account"],
        ["account", "nonsense"],
        ["account", "add"],
        ["account", "add", ""],
        ["account", "add", "a", "--credit", "-1"],
        ["account", "add", "a", "--credit", "1e3"],
        ["account", "credit", "a", "-5"],
        ["account", "credit", "a", "0"],
        ["account", "credit", "a", "0.0000000001"],
        ["account", "correct", "a", "five", "--note", "n"],
        ["account", "correct", "a", "1", "--note", ""],
        ["account", "li"],
        ["account", "list", "--js"],
        ["key", "add", "a", "--expires", "2001-01-01"],
        ["key", "add", "a", "--models", ","],
        ["key", "add", "a", "--rpm", "-1"],
        ["key", "add", "a", "--cap", "0"],
        ["key", "rotate", "k", "--grace", "soon"],
        ["key", "edit", "k", "--cap", "0"],
        ["key", "edit", "k", "--expires", "2001-01-01"],
        ["code", "make"],
        ["code", "make", "--amount", "0"],
        ["code", "make", "--amount", "1", "--count", "many"],
        ["code", "list", "--status", "lost"],
        ["code", "void"],
        ["usage", "--by", "moon"],
        ["usage", "--since", "last week"],
        ["serve", "now"],
        ["check", "\udcff"],
    ],
)
def test_wrong_usage_exits_2(cli: Cli, words: Sequence[str]) -> None:
    answer = cli.run(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("usage: ")
    assert not cli.database.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("account", "add", "a", "--credti", "5"), "unknown argument --credti; did you mean --cr"),
        (("account", "add", "a", "--credti=5"), "unknown argument --credti=5; did you mean --cred"),
        (("audit", "extra"), "unknown argument extra; see --help"),
        (("--nonsense",), "unknown argument --nonsense; see --help"),
    ],
)
def test_an_unknown_argument_shows_the_usage_of_its_verb(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(words)
    assert stop.value.code == 2
    err = capsys.readouterr().err
    verb = " ".join(one for one in words[:2] if one in ("account", "add", "audit"))
    assert err.startswith(f"usage: python -m gateway {verb}".rstrip() + " [-h]")
    assert told in err
