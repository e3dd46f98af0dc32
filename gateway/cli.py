"""`python -m gateway VERB`: from the words of a command to its exit code.

0 done, 1 failed, 2 wrong usage, 3 the books do not add up, 5 not found, 69 the database is busy or
unusable, 78 the configuration cannot be used. What people can cause is told in words, on stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO

from gateway.accounts import NotFound, Refused
from gateway.cli_output import Console
from gateway.cli_parser import PROGRAM, make_parser
from gateway.cli_verbs import Call
from gateway.config import ConfigError, load_config
from gateway.ledger.base import LedgerError

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
"""128 + SIGINT, as a shell says it."""

EXIT_CODES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (NotFound, 5),
    (Refused, FAILED),
    (LedgerError, 69),
    (ConfigError, 78),
)
"""The first that fits; anything else is our fault and shows its traceback."""

DEFAULT_CONFIG: Final = "gateway.toml"


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    console = Console(_tolerant(sys.stdout), _tolerant(sys.stderr))
    try:
        code = _run(words, os.environ if environ is None else environ, console)
        console.out.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _silence(console.out)
        if not isinstance(error, BrokenPipeError):  # a reader that left wants no words
            console.say(f"{PROGRAM}: {_describe(error)}")
        return FAILED
    return code


def _run(words: Sequence[str], environ: Mapping[str, str], console: Console) -> int:
    """Parse, load, do; what is known to go wrong becomes words and a code."""
    try:
        options = make_parser().parse_args(words)
    except SystemExit as stop:  # argparse has said what is wrong, or printed the help
        return stop.code if isinstance(stop.code, int) else USAGE
    path = Path(options.config or environ.get("GATEWAY_CONFIG") or DEFAULT_CONFIG)
    try:
        config = load_config(path, environ, read_keys=options.verb.reads_keys)
        code: int = options.verb.run(Call(options, config, console))
    except tuple(kind for kind, _ in EXIT_CODES) as error:
        console.say(f"{PROGRAM}: {error}")
        return next(code for kind, code in EXIT_CODES if isinstance(error, kind))
    return code


def _describe(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror}"


def _tolerant(stream: TextIO | None) -> TextIO:
    """The stream, made to write what its encoding lacks as an escape; a closed one goes nowhere."""
    if stream is None:
        return Path(os.devnull).open("w")
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def _silence(stream: TextIO) -> None:
    """It cannot be written: spare the interpreter its own complaint when it exits."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
