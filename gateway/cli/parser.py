"""The records of a command line's grammar, and the argparse parser that is built from them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, TypedDict, Unpack

from gateway.cli.arguments import clearable
from gateway.cli.command import Command, Options
from gateway.config import Config, load_config

PROGRAM: Final = "python -m gateway"
WITHOUT_KEYS: Final = partial(load_config, read_keys=False)
"""Reads the configuration where the providers' keys may be unreadable."""


class Parsing(TypedDict, total=False):
    """Parameters of argparse's `add_argument`: what an argument is."""

    action: str
    choices: Sequence[str]
    help: str
    metavar: str
    type: Callable[[str], object]


class Presence(TypedDict, total=False):
    """Parameters of `add_argument`: whether the argument may be left out."""

    default: object
    dest: str
    nargs: str
    required: bool


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument and how argparse parses it."""

    name: str
    parsing: Parsing
    presence: Presence


class VerbOptions(Options):
    """The parsed arguments with their verb."""

    verb: Verb
    parser: Parser
    version: bool
    """Whether only the version is asked for."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A command."""

    path: str
    summary: str
    run: Callable[[Command], int | None]
    """Its exit code; None means OK."""
    examples: tuple[str, ...]
    arguments: tuple[Argument, ...] = ()
    either: tuple[Argument, ...] = ()
    """Arguments that exclude each other."""
    load: Callable[[Path, Mapping[str, str]], Config] = WITHOUT_KEYS
    """Reads what it needs of the configuration."""


def arg(
    name: str,
    metavar: str,
    read: Callable[[str], object],
    what: str,
    **presence: Unpack[Presence],
) -> Argument:
    """Make an argument with a value."""
    return Argument(
        name, {"metavar": metavar, "type": read, "help": _add_default(what, presence)}, presence
    )


def flag(name: str, what: str) -> Argument:
    """Make an option without a value."""
    return Argument(name, {"action": "store_true", "help": what}, {})


def choice(name: str, words: Sequence[str], what: str, **presence: Unpack[Presence]) -> Argument:
    """Make an option with one of these words."""
    return Argument(name, {"choices": words, "help": _add_default(what, presence)}, presence)


def edit(name: str, metavar: str, read: Callable[[str], object], what: str) -> Argument:
    """Make an option that changes or clears a value; if left out, it is absent from the options."""
    what = f"{what}; `none` restores the default"
    return arg(name, metavar, clearable(read), what, default=argparse.SUPPRESS)


def _add_default(what: str, presence: Presence) -> str:
    default = presence.get("default", argparse.SUPPRESS)
    return what if default is argparse.SUPPRESS else f"{what} (default: {default})"


class Parser(argparse.ArgumentParser):
    """A parser whose help begins with a summary and examples."""

    summary: str = ""
    examples: tuple[str, ...] = ()

    def format_help(self) -> str:
        lines = [f"  {line if '$(' in line else f'{PROGRAM} {line}'}" for line in self.examples]
        return "\n".join((self.summary, "", "examples:", *lines, "", super().format_help()))


def parse(words: Sequence[str], verbs: Sequence[Verb], groups: Mapping[str, str]) -> VerbOptions:
    """Parse a command line. Raises SystemExit when argparse has written the error or the help."""
    options, unknown = make_parser(verbs, groups).parse_known_args(words, VerbOptions())
    if unknown:
        _refuse(options, unknown[0])
    return options


def _refuse(options: VerbOptions, word: str) -> NoReturn:
    """Refuse an argument that the verb does not have; argparse would show the usage of all verbs."""
    import difflib  # 0.2 MiB, for errors only

    known = [one.name for one in (*options.verb.arguments, *options.verb.either)]
    close = difflib.get_close_matches(word.partition("=")[0], known, n=1)
    advice = f"did you mean {close[0]}?" if close else "see --help"
    options.parser.error(f"unknown argument {word}; {advice}")


def make_parser(verbs: Sequence[Verb], groups: Mapping[str, str]) -> Parser:
    """Build the parser of all verbs.

    The first verb is the default. `groups` are the summaries of the groups of verbs.
    """
    root = _equip(
        Parser(prog=PROGRAM, allow_abbrev=False),
        "An LLM gateway: keys, balances and an exact ledger in front of upstream providers.",
        ("serve", "account add alice --credit 20", "key add alice", "usage --by model"),
    )
    root.set_defaults(verb=verbs[0], parser=root)
    root.add_argument("--version", action="store_true", help="print the version and exit")
    _add_config(root, default=None)
    top = root.add_subparsers(title="verbs", metavar="VERB")
    parents = {"": top}
    for group, summary in groups.items():
        members = [verb for verb in verbs if verb.path.startswith(f"{group} ")]
        parents[group] = _add_group(top, group, summary, members)
    for verb in verbs:
        group, _, name = verb.path.rpartition(" ")
        _add_verb(parents[group], name, verb)
    return root


def _equip(parser: Parser, summary: str, examples: Iterable[str]) -> Parser:
    parser.summary, parser.examples = summary, tuple(examples)
    return parser


def _add_group(
    top: argparse._SubParsersAction[Parser], name: str, summary: str, members: Iterable[Verb]
) -> argparse._SubParsersAction[Parser]:
    parser = top.add_parser(name, help=summary, allow_abbrev=False)
    _equip(parser, summary, (verb.examples[0] for verb in members))
    return parser.add_subparsers(title="verbs", metavar="VERB", required=True)


def _add_verb(parent: argparse._SubParsersAction[Parser], name: str, verb: Verb) -> None:
    parser = _equip(
        parent.add_parser(name, help=verb.summary, allow_abbrev=False), verb.summary, verb.examples
    )
    _add_config(parser, default=argparse.SUPPRESS)  # a default would override --config before VERB
    for argument in verb.arguments:
        parser.add_argument(argument.name, **argument.parsing, **argument.presence)
    if verb.either:
        group = parser.add_mutually_exclusive_group()
        for argument in verb.either:
            group.add_argument(argument.name, **argument.parsing, **argument.presence)
    parser.set_defaults(verb=verb, parser=parser)


def _add_config(parser: Parser, default: str | None) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=default,
        help="the configuration file (default: $GATEWAY_CONFIG, else ./gateway.toml)",
    )
