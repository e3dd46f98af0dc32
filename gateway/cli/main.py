"""Run one command: `python -m gateway VERB`, and turn its errors into exit codes (see `process`).

Errors that people can cause become a message on stderr; any other one is a bug and shows its
traceback.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO

from gateway.cli.arguments import Output
from gateway.cli.command import Command
from gateway.cli.verbs import DEFAULT_CONFIG, parse
from gateway.config.reader import ConfigError
from gateway.ledger.records import Actor, LedgerError, NotFound, Refused
from gateway.process import PROGRAM, ExitCode, find_version

MAX_USER_CHARS: Final = 64
"""Characters of a user's name: twice what Linux allows. SUDO_USER may hold anything."""


def find_actor(environ: Mapping[str, str], find_user_id: Callable[[], int] = os.getuid) -> Actor:
    """Return `cli (alice)`, or `cli (alice via sudo)` if sudo says who called it.

    It helps people to ask each other. It proves nothing: who may write the database may set
    SUDO_USER too.
    """
    caller = environ.get("SUDO_USER", "")
    if caller.isprintable() and 0 < len(caller) <= MAX_USER_CHARS:
        return Actor(f"cli ({caller} via sudo)")
    return Actor(f"cli ({_find_user_name(find_user_id())})")


def _find_user_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:  # as in a container that runs under a number
        return f"user {user_id}"


FAILURES: Final[tuple[tuple[type[Exception], ExitCode], ...]] = (
    (NotFound, ExitCode.NOT_FOUND),
    (Refused, ExitCode.FAILED),
    (LedgerError, ExitCode.UNAVAILABLE),
    (ConfigError, ExitCode.CONFIG),
)
"""Errors that people can cause. The first match counts, as NotFound is also Refused."""


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    output = Output(_tolerant(sys.stdout), _tolerant(sys.stderr))
    try:
        code = _run(words, os.environ if environ is None else environ, output)
        # Here, where an error can be told; at its exit Python would raise it.
        output.out.flush()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except OSError as error:  # stdout itself may be what failed, so nothing more goes there
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
        with ExitStack() as closing:
            command = Command(config, output, find_actor(environ), options.json, closing)
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
