"""What the command line's grammar is made of."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gateway import cli_arguments as types
from gateway.cli_verbs import Call


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, in argparse's words."""

    names: tuple[str, ...]
    options: dict[str, Any]


def arg(*names: str, **options: Any) -> Argument:
    return Argument(names, options)


@dataclass(frozen=True, slots=True)
class Verb:
    """One command."""

    path: str
    summary: str
    run: Callable[[Call], int]
    examples: tuple[str, ...]
    arguments: tuple[Argument, ...] = ()
    either: tuple[Argument, ...] = ()
    """Of these at most one."""
    reads_keys: bool = False
    """Whether it needs providers' keys; all else works where they are out of reach."""


def edit(name: str, metavar: str, read: Callable[[str], object], what: str) -> Argument:
    """An option to change something, or to take it away; left out, it is not there at all."""
    return arg(
        name,
        metavar=metavar,
        type=types.clearable(read),
        default=argparse.SUPPRESS,
        help=f"{what}; none takes it away",
    )


JSON: Final = arg("--json", action="store_true", help="answer in JSON on stdout")
ACCOUNT_NAME: Final = arg("name", metavar="NAME", type=types.word, help="the account")
KEY_ID: Final = arg("id", metavar="ID", type=types.word, help="the key's id, as in `key list`")
IDEMPOTENCY_KEY: Final = arg(
    "--idempotency-key",
    metavar="KEY",
    type=types.word,
    help="the same key again adds nothing again",
)
