"""The decorator makes a verb of a function, with its arguments, words and examples.

A subject's module is imported when one of its words is typed: `--help` needs none of them.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, TypedDict, TypeVar, Unpack

from gateway.base.process import ExitCode
from gateway.cli import arguments as read
from gateway.config.records import Config
from gateway.extension import find_extras

Run = TypeVar("Run", bound=Callable[..., int | None])
"""The function of a verb, see `Verb.run`."""

WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "accounts": {"account": "Manage accounts and their balances."},
    "keys": {"key": "Manage the keys of accounts."},
    "process": {
        "serve": "Run the gateway. This is the default verb.",
        "init": "Write a gateway.toml to begin with: the one that comes with the gateway.",
        "check": f"Check the configuration. Exits {ExitCode.CONFIG} if it is invalid.",
    },
    "books": {
        "audit": (
            "Run the full audit: check that balances equal the sums of all entries and requests. "
            f"Exits {ExitCode.AUDIT_MISMATCH} if they do not."
        ),
        "backup": (
            "Copy the database to a new file, for its owner alone. The gateway may be running. One of"
            f" PostgreSQL has backups of its own, so this exits {ExitCode.FAILED} with it."
        ),
    },
}
"""The first words of each module's verbs with their summaries, in the order of the help; those of extras follow."""
DEFAULT: Final = "serve"
DEFAULT_CONFIG: Final = "gateway.toml"


class Parameters(TypedDict, total=False):
    """Parameters of argparse's `add_argument`."""

    action: str
    choices: Sequence[str]
    default: object
    dest: str
    help: str
    metavar: str
    nargs: str
    required: bool
    type: Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a verb. Its `dest`, or else its name, is the function's parameter."""

    name: str
    parameters: Parameters


METAVARS: Final[Mapping[Callable[[str], object], str]] = {
    read.allowance: "AMOUNT/PERIOD",
    read.amount: "±AMOUNT",
    read.amount_above_zero: "AMOUNT",
    read.amount_or_zero: "AMOUNT",
    read.budget: "AMOUNT/PERIOD|NAME",
    read.count: "N",
    read.count_above_zero: "N",
    read.duration_seconds: "DURATION",
    read.end: "TIME",
    read.expiry: "TIME",
    read.model_list: "A,B",
    read.new_file: "FILE",
    read.start: "TIME",
}
"""The names in the help for values that these functions parse."""


def arg(
    name: str, kind: str | Callable[[str], object], what: str, **others: Unpack[Parameters]
) -> Argument:
    """Make an argument with a value. `kind` is a parser, whose metavar `METAVARS` or `others` has, or a word's metavar."""
    metavar, parse_value = (
        (kind, read.word)
        if isinstance(kind, str)
        else (others.get("metavar") or METAVARS[kind], kind)
    )
    default = others.get("default", argparse.SUPPRESS)
    what = what if default is argparse.SUPPRESS else f"{what} (default: {default})"
    parameters: Parameters = {"metavar": metavar, "type": parse_value, "help": what}
    return Argument(name, {**parameters, **others})


def edit(
    name: str, kind: str | Callable[[str], object], what: str, **others: Unpack[Parameters]
) -> Argument:
    """Make an argument that changes or clears a value; without it the function gets none."""
    others["default"] = argparse.SUPPRESS
    made = arg(name, kind, f"{what}; `none` restores the default", **others)
    made.parameters["type"] = read.clearable(made.parameters["type"])
    return made


def flag(name: str, what: str) -> Argument:
    """Make an option without a value."""
    return Argument(name, {"action": "store_true", "help": what})


def choice(name: str, words: Sequence[str], what: str, **others: Unpack[Parameters]) -> Argument:
    """Make an option with one of these words."""
    what = f"{what} (default: {others['default']})" if "default" in others else what
    parameters: Parameters = {"choices": words, "help": what}
    return Argument(name, {**parameters, **others})


JSON: Final = flag("--json", "write JSON to stdout")
"""Makes `Command.show` write JSON; the verbs' functions do not get it."""
_TIME: Final = "7d or 24h ago, today, yesterday, 2026-11-01, or 2026-11-01T18:00 (UTC)"
SINCE: Final = arg("--since", read.start, f"only from this time on: {_TIME}")
UNTIL: Final = arg("--until", read.end, "only before this time; a day is included")
ACCOUNT: Final = arg("--account", "NAME", "only this account")
LIMIT: Final = arg("--limit", read.count_above_zero, "the most to list", default=50)


MOMENTS: Final = "2026-12-31 or 2026-12-31T18:00 in UTC"


def make_expiry(what: str) -> Argument:
    """Make the option that says when something expires."""
    return arg("--expires", read.expiry, f"{what}, {MOMENTS} (default: never)")


def make_limits(make: Callable[..., Argument]) -> tuple[Argument, ...]:
    """Make the options of what an account or a key may use, with `arg` or `edit`."""
    minute = "per minute; 0 = unlimited"
    return (
        make("--models", read.model_list, "the only models it may use; all if none is named"),
        make("--rpm", read.count, f"requests {minute}", dest="requests_per_minute"),
        make("--tpm", read.count, f"tokens {minute}", dest="tokens_per_minute"),
        make("--concurrency", read.count, "requests in flight at once; 0 = unlimited"),
    )


def _read_config(path: Path, environ: Mapping[str, str]) -> Config:
    """Read the configuration without the providers' keys, which may be unreadable."""
    from gateway.config.load import load_config

    return load_config(path, environ, read_keys=False)


@dataclass(frozen=True, slots=True)
class Verb:
    """A command."""

    path: str
    summary: str
    run: Callable[..., int | None]
    """Takes the `Command`, and the arguments by name. Its exit code; None means OK."""
    examples: tuple[str, ...]
    arguments: tuple[Argument, ...]
    either: tuple[Argument, ...]
    """Arguments that exclude each other."""
    load: Callable[[Path, Mapping[str, str]], Config]
    """Reads the needed parts of the configuration."""


VERBS: Final[dict[str, Verb]] = {}
"""The verbs of the modules that are imported."""


def verb(
    path: str,
    *,
    examples: tuple[str, ...] = (),
    arguments: tuple[Argument, ...] = (),
    either: tuple[Argument, ...] = (),
    json: bool = True,
    load: Callable[[Path, Mapping[str, str]], Config] = _read_config,
) -> Callable[[Run], Run]:
    """Make a verb of a function, whose docstring says what it does unless `find_words` does.

    Without `examples` the help shows the verb alone. `json` adds `--json`, unless `either` has it.
    """

    def add(run: Run) -> Run:
        said = find_words().get(path) or " ".join((inspect.getdoc(run) or "").split())
        own = (*arguments, JSON) if json and JSON not in either else arguments
        VERBS[path] = Verb(path, said, run, examples or (path,), own, either, load)
        return run

    return add


@cache
def find_words() -> Mapping[str, str]:
    """Return what the first words of all verbs are for, those of extras among them."""
    found = (*WORDS.values(), *(extra.first_words for extra in find_extras().values()))
    return {word: said for words in found for word, said in words.items() if said}


def load_verbs(words: Collection[str]) -> None:
    """Import the modules of these words."""
    own = {f"gateway.cli.{module}": some for module, some in WORDS.items()}
    added = {f"gateway.extras.{name}.verbs": one.first_words for name, one in find_extras().items()}
    for module, some in {**own, **added}.items():
        if any(word in words for word in some):
            import_module(module)
