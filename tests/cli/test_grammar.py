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
        "serve", "check", "reload", "audit", "events", "backup", "export", "import", "unit",
        "account add", "account edit", "account list", "account show", "account credit", "account correct",
        "account suspend", "account resume", "account passwd", "account signin-link",
        "account end-sessions",
        "key add", "key edit", "key list", "key rotate", "key revoke",
        "budget add", "budget list", "budget edit", "budget remove",
        "code make", "code list", "code void",
        "token add", "token list", "token revoke",
        "price check", "price propose",
        "usage", "calls", "receipt", "providers", "alerts list", "alerts test", "refusals",
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
        assert parse(words, VERBS, GROUPS).json is True
