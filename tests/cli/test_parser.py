"""The parser of the command line: help, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.cli.grammar import GROUPS, VERBS
from gateway.cli.parser import PROGRAM, parse
from tests.support.cli import Cli

VERB_PATHS = [verb.path for verb in VERBS]


@pytest.mark.parametrize("path", [*VERB_PATHS, *GROUPS, ""])
def test_help_begins_with_what_it_is_for_and_examples(cli: Cli, path: str) -> None:
    answer = cli.done(*path.split(), "--help")
    lines = answer.out.splitlines()
    assert lines[0].endswith(".")
    assert lines[2] == "examples:"
    assert lines[3].startswith(f"  {PROGRAM} ")
    assert answer.out.index("examples:") < answer.out.index("usage:")


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
        parse(words, VERBS, GROUPS)
    assert stop.value.code == 2
    err = capsys.readouterr().err
    verb = " ".join(one for one in words[:2] if one in ("account", "add", "audit"))
    assert err.startswith(f"usage: python -m gateway {verb}".rstrip() + " [-h]")
    assert told in err
