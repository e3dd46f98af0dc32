"""argparse made from the grammar; its help begins with what a verb is for and with examples."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, Final

from gateway.cli_grammar import GROUPS, VERBS
from gateway.cli_words import Verb

PROGRAM: Final = "python -m gateway"


class Parser(argparse.ArgumentParser):
    """argparse whose help begins with what it is for and with examples."""

    summary: str = ""
    examples: tuple[str, ...] = ()

    def format_help(self) -> str:
        lines = [f"  {line if '$(' in line else f'{PROGRAM} {line}'}" for line in self.examples]
        return "\n".join((self.summary, "", "examples:", *lines, "", super().format_help()))


def make_parser() -> Parser:
    """The whole grammar; a parsed command has `verb`, a Verb."""
    root = _equip(
        Parser(prog=PROGRAM, allow_abbrev=False),
        "An LLM gateway: keys, balances and an exact ledger in front of upstream providers.",
        ("serve", "account add alice --credit 20", "key add alice", "usage --by model"),
    )
    root.set_defaults(verb=VERBS[0])
    _add_config(root, default=None)
    top = root.add_subparsers(title="verbs", metavar="VERB")
    groups = {name: _add_group(top, name, summary) for name, summary in GROUPS.items()}
    for verb in VERBS:
        group, _, name = verb.path.rpartition(" ")
        _add_verb(groups[group] if group else top, name, verb)
    return root


def _equip(parser: Parser, summary: str, examples: Iterable[str]) -> Parser:
    parser.summary, parser.examples = summary, tuple(examples)
    return parser


def _add_group(top: Any, name: str, summary: str) -> Any:
    parser = top.add_parser(name, help=summary, allow_abbrev=False)
    members = [verb for verb in VERBS if verb.path.startswith(f"{name} ")]
    _equip(parser, summary, (verb.examples[0] for verb in members))
    return parser.add_subparsers(title="verbs", metavar="VERB", required=True)


def _add_verb(parent: Any, name: str, verb: Verb) -> None:
    parser = _equip(
        parent.add_parser(name, help=verb.summary, allow_abbrev=False), verb.summary, verb.examples
    )
    _add_config(parser, default=argparse.SUPPRESS)  # else it would undo one before the verb
    for argument in verb.arguments:
        parser.add_argument(*argument.names, **argument.options)
    if verb.either:
        group = parser.add_mutually_exclusive_group()
        for argument in verb.either:
            group.add_argument(*argument.names, **argument.options)
    parser.set_defaults(verb=verb)


def _add_config(parser: Parser, default: str | None) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=default,
        help="the configuration (default: $GATEWAY_CONFIG, else ./gateway.toml)",
    )
