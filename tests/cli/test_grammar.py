"""The verbs of the command line and their examples."""

from __future__ import annotations

import re
import shlex

import pytest

from gateway.cli.grammar import GROUPS, VERBS
from gateway.cli.parser import PROGRAM, Verb, parse

VERB_PATHS = [verb.path for verb in VERBS]


# ---- grammar and help ----------------------------------------------------------------------------


def test_these_verbs_and_no_others_exist() -> None:
    assert VERB_PATHS == [
        "serve", "check", "audit", "backup", "unit",
        "account add", "account edit", "account list", "account show", "account credit", "account correct",
        "account suspend", "account resume", "account passwd", "account signin-link",
        "account end-sessions",
        "key add", "key edit", "key list", "key rotate", "key revoke",
        "code make", "code list", "code void",
        "usage",
    ]  # fmt: skip


def test_no_verb_serves() -> None:
    for words in ([], ["--config", "x.toml"]):
        assert parse(words, VERBS, GROUPS).verb.path == "serve"


@pytest.mark.parametrize("verb", VERBS, ids=VERB_PATHS)
def test_every_example_can_be_typed(verb: Verb) -> None:
    for example in verb.examples:
        command = re.sub(r"^\w+=\$\((.*)\)$", r"\1", example).removeprefix(f"{PROGRAM} ")
        words = shlex.split(re.split(" [<>] ", command)[0])
        assert parse(words, VERBS, GROUPS).verb is verb


def test_every_reading_verb_answers_in_json() -> None:
    reading = {"check", "audit", "account list", "account show", "key list", "code list", "usage"}
    for path in reading:
        words = [*path.split(), *(["x"] if path == "account show" else []), "--json"]
        assert parse(words, VERBS, GROUPS).json is True
