"""`python -m gateway VERB`: run one command and return its exit code (see `exit_codes`).

Errors that people can cause become a message on stderr; any other one is a bug and shows its
traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO

from gateway.cli.arguments import Output
from gateway.cli.command import Command, find_actor
from gateway.cli.verbs import PROGRAM, parse
from gateway.config.reader import ConfigError
from gateway.exit_codes import ExitCode
from gateway.ledger.records import LedgerError, NotFound, Refused
from gateway.version import find_version

FAILURES: Final[tuple[tuple[type[Exception], ExitCode], ...]] = (
    (NotFound, ExitCode.NOT_FOUND),
    (Refused, ExitCode.FAILED),
    (LedgerError, ExitCode.UNAVAILABLE),
    (ConfigError, ExitCode.CONFIG),
)
"""Errors that people can cause. The first match counts, as NotFound is also Refused."""

DEFAULT_CONFIG: Final = "gateway.toml"


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    output = Output(_tolerant(sys.stdout), _tolerant(sys.stderr))
    try:
        code = _run(words, os.environ if environ is None else environ, output)
        output.out.flush()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except OSError as error:
        _silence(output.out)
        if not isinstance(error, BrokenPipeError):  # `head` and the like close the pipe on purpose
            output.say(f"{PROGRAM}: {_describe(error)}")
        return ExitCode.FAILED
    return code


def _run(words: Sequence[str], environ: Mapping[str, str], output: Output) -> int:
    """Parse the words, load the configuration and run the verb; turn known errors into a message."""
    try:
        options = parse(words)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else ExitCode.USAGE
    if options.version:
        output.print(f"gateway {find_version()}")
        return ExitCode.OK
    path = Path(options.config or environ.get("GATEWAY_CONFIG") or DEFAULT_CONFIG)
    try:
        config = options.verb.load(path, environ)
        command = Command(config, output, find_actor(environ), options.json)
        code = options.verb.run(command, **options.find_arguments())
    except tuple(kind for kind, _ in FAILURES) as error:
        for line in str(error).splitlines():
            output.say(f"{PROGRAM}: {line}")
        return next(code for kind, code in FAILURES if isinstance(error, kind))
    return code or ExitCode.OK


def _describe(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror}"


def _tolerant(stream: TextIO | None) -> TextIO:
    """Make a stream write characters that its encoding lacks as escapes; discard if it is closed."""
    if stream is None:
        return Path(os.devnull).open("w")
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def _silence(stream: TextIO) -> None:
    """Redirect a broken stream to nowhere: Python would report the error again when it exits."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
