"""The parser of all verbs is argparse's, with shorter errors and longer help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import NoReturn

from gateway.base.process import PROGRAM, ExitCode
from gateway.cli.verbs import DEFAULT, VERBS, Verb, find_words, load_verbs
from gateway.extension import find_missing


class Options(argparse.Namespace):
    """The parsed words."""

    config: str | None
    json: bool = False
    version: bool
    verb: Verb
    parser: Parser

    def find_arguments(self) -> dict[str, object]:
        """Return the parameters of the verb's function."""
        own = {"config", "json", "version", "verb", "parser"}
        return {name: value for name, value in vars(self).items() if name not in own}


class Parser(argparse.ArgumentParser):
    """A parser whose help begins with a summary and examples."""

    summary: str = ""
    examples: tuple[str, ...] = ()

    def format_help(self) -> str:
        lines = [f"  {line if '$(' in line else f'{PROGRAM} {line}'}" for line in self.examples]
        return "\n".join((self.summary, "", "examples:", *lines, "", super().format_help()))

    def error(self, message: str) -> NoReturn:
        """Write the message and one hint; argparse would put the whole usage before it."""
        hint = "" if "did you mean" in message else f"\nSee `{self.prog} --help`."
        self.exit(ExitCode.USAGE, f"{PROGRAM}: {message}{hint}\n")

    def print_help(self, _: object = None) -> None:
        """Write the help; argparse would hide a failed write, such as on a full disk, and exit with 0."""
        sys.stdout.write(self.format_help())

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse an unknown verb; argparse would list all verbs in one line."""
        if action.nargs != argparse.PARSER or action.choices is None or value in action.choices:
            super()._check_value(action, value)
            return
        group = self.prog.removeprefix(PROGRAM).lstrip()
        known = [f"{group} {one}".lstrip() for one in action.choices]
        word = f"{group} {value}".lstrip()
        if needed := find_missing("words", word):
            raise argparse.ArgumentError(None, f"'{word}' {needed}")
        raise argparse.ArgumentError(None, f"unknown verb '{word}'{_advise(word, known)}")


def parse(words: Sequence[str]) -> Options:
    """Parse a command line. Raises SystemExit when argparse has written the error or the help."""
    load_verbs(words)
    # Not parse_args: its error for an unknown argument shows the usage of all verbs.
    options, unknown = make_parser(words).parse_known_args(words, Options())
    if not hasattr(options, "verb"):
        load_verbs((DEFAULT,))
        options.verb = VERBS[DEFAULT]
    if unknown:
        _refuse(options, unknown[0])
    return options


def _refuse(options: Options, word: str) -> NoReturn:
    """Refuse an argument that the verb does not have; argparse would show the usage of all verbs."""
    name = word.partition("=")[0]
    if needed := find_missing("words", f"{options.verb.path} {name}"):
        options.parser.error(f"{name} {needed}")
    known = [one.name for one in (*options.verb.arguments, *options.verb.either)]
    options.parser.error(f"unknown argument {word}{_advise(name, known)}")


def _advise(word: str, known: list[str]) -> str:
    import difflib  # 0.2 MiB, for errors only

    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def make_parser(typed: Collection[str] | None = None) -> Parser:
    """Build the parser of the verbs whose modules are imported; it knows the words of the others.

    If `typed` is given, only verbs whose first word is among it have arguments: no others can be meant.
    """
    root = _equip(
        # No abbreviations: scripts that use one would break when an option is added.
        Parser(prog=PROGRAM, allow_abbrev=False),
        "An LLM gateway: keys, balances and an exact ledger in front of upstream providers.",
        ("serve", "account add alice --credit 20", "key add alice", "usage --by model"),
    )
    root.set_defaults(parser=root)
    root.add_argument("--version", action="store_true", help="print the version and exit")
    _add_config(root, default=None)
    top = root.add_subparsers(title="verbs", metavar="VERB")
    for word, summary in find_words().items():
        meant = typed is None or word in typed
        members = [one for path, one in VERBS.items() if meant and path.startswith(f"{word} ")]
        parser = _equip(
            top.add_parser(word, help=summary, allow_abbrev=False),
            summary,
            (one.examples[0] for one in members),
        )
        if meant and word in VERBS:
            _fill(parser, VERBS[word])
        elif members:
            group = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
            for one in members:
                name = one.path.removeprefix(f"{word} ")
                _fill(group.add_parser(name, help=one.summary, allow_abbrev=False), one)
    return root


def _equip(parser: Parser, summary: str, examples: Iterable[str]) -> Parser:
    parser.summary, parser.examples = summary, tuple(examples)
    return parser


def _fill(parser: Parser, one: Verb) -> None:
    _equip(parser, one.summary, one.examples)
    _add_config(parser, default=argparse.SUPPRESS)  # a default would override --config before VERB
    for argument in one.arguments:
        parser.add_argument(argument.name, **argument.parameters)
    if one.either:
        group = parser.add_mutually_exclusive_group()
        for argument in one.either:
            group.add_argument(argument.name, **argument.parameters)
    parser.set_defaults(verb=one, parser=parser)


def _add_config(parser: Parser, default: str | None) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=default,
        help="the configuration file (default: $GATEWAY_CONFIG, else ./gateway.toml)",
    )
