"""The words that are typed: verbs and their arguments."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gateway.base.process import PROGRAM
from gateway.cli.parser import Options, make_parser, parse
from gateway.cli.verbs import VERBS, find_words, load_verbs
from tests import ROOT
from tests.support.cli import Cli
from tests.support.rows import each_row

WRONG: Final = [
    line
    for one in (
        Path(__file__).with_name("wrong.txt"),
        *sorted(ROOT.glob("tests/extras/*/wrong.txt")),
    )
    for line in one.read_text(encoding="utf-8").splitlines()
]
"""Command lines that are no commands."""

load_verbs(find_words())


# ---- grammar and help ----------------------------------------------------------------------------


def test_these_verbs_and_no_others_exist() -> None:
    """Extras may bring others, and more of these."""
    modules = {path: one.run.__module__ for path, one in VERBS.items()}
    own = {
        "serve", "init", "check", "audit", "backup",
        "account add", "account edit", "account list", "account show", "account credit", "account correct",
        "account suspend", "account resume",
        "key add", "key edit", "key list", "key rotate", "key revoke",
    }  # fmt: skip
    assert own <= VERBS.keys()
    assert {path for path, one in modules.items() if one.startswith("gateway.cli.")} <= own


def test_no_verb_serves() -> None:
    for words in ([], ["--config", "x.toml"]):
        assert parse(words).verb.path == "serve"


def test_every_example_can_be_typed() -> None:
    parser = make_parser()
    for verb in VERBS.values():
        for example in verb.examples:
            command = re.sub(r"^\w+=\$\((.*)\)$", r"\1", example).removeprefix(f"{PROGRAM} ")
            words = shlex.split(re.split(" [<>] ", command)[0])
            options, unknown = parser.parse_known_args(words, Options())
            assert (options.verb, unknown) == (verb, []), example


NO_JSON: Final = {
    "serve": "it answers nothing: its log is JSON by [server] log",
    "unit": "it prints a file of systemd's",
    "completion": "it prints a shell's script",
}
"""Why these verbs cannot answer in JSON."""


def find_leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers below whose last word ends a verb."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from find_leaves(one)
            return
    yield parser


def test_all_verbs_but_these_can_answer_in_json() -> None:
    leaves = {one.get_default("verb").path: one for one in find_leaves(make_parser())}
    assert leaves.keys() == VERBS.keys()
    silent = {path for path, one in leaves.items() if "--json" not in one._option_string_actions}
    assert silent == NO_JSON.keys() & VERBS.keys()


def test_help_begins_with_what_it_is_for_and_examples(cli: Cli) -> None:
    for path in {*VERBS, *find_words(), ""}:
        answer = cli.done(*path.split(), "--help")
        lines = answer.out.splitlines()
        assert lines[0].endswith("."), path
        assert lines[2] == "examples:", path
        assert lines[3].startswith(f"  {PROGRAM} "), path
        assert answer.out.index("examples:") < answer.out.index("usage:"), path


@each_row("words", [*map(shlex.split, WRONG), ["check", "\udcff"]])
def test_wrong_usage_exits_2(cli: Cli, words: Sequence[str]) -> None:
    answer = cli.run(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"{PROGRAM}: ")
    assert len(answer.err.splitlines()) <= 2  # the message, and perhaps where help is
    assert not cli.database.exists()


@pytest.mark.parametrize("typed", ["--live", "--live=1"])
def test_an_option_of_an_extra_that_is_missing_is_told_with_its_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    monkeypatch.setitem(VERBS, "check", replace(VERBS["check"], arguments=()))
    with pytest.raises(SystemExit):
        parse(("check", typed))
    told = '--live needs the extra "summary"; it is not in this installation'
    assert capsys.readouterr().err.startswith(f"python -m gateway: {told}\n")
