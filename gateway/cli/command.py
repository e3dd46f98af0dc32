"""Run one command: `python -m gateway VERB`, and turn its errors into exit codes (see `process`).

Errors that people can cause become a message on stderr; any other one is a bug and shows its
traceback. `Command` is a verb's view of it: configuration, books, actor, output.
"""

from __future__ import annotations

import errno
import os
import pwd
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO, TypeVar

from gateway.admin.fields import Fields
from gateway.base.money import format_amount
from gateway.base.process import PROGRAM, ExitCode, describe_version
from gateway.base.progress import Progress, ignore, show_progress
from gateway.base.times import unix_ms
from gateway.cli.output import Json, Output, render
from gateway.cli.parser import parse
from gateway.cli.verbs import DEFAULT_CONFIG
from gateway.config.reader import ConfigError
from gateway.config.records import Config
from gateway.extension import find_advice, find_unmet
from gateway.ledger.opening import open_books
from gateway.ledger.records import (
    Actor,
    Conflict,
    DatabaseUrl,
    LedgerError,
    LedgerMissing,
    NotFound,
    Refused,
)
from gateway.ledger.sql.books import Books
from gateway.ledger.versions import VERSION

MAX_USER_CHARS: Final = 64
"""Characters of a user's name: twice what Linux allows. SUDO_USER may hold anything."""

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is being run."""

    config: Config
    output: Output
    actor: Actor
    """The actor that events of changes name."""
    as_json: bool
    """Data are written as JSON, not as text."""
    closing: ExitStack
    """Closes everything that the verb opened when it ends."""

    @property
    def currency(self) -> str:
        return self.config.billing.currency

    def open_books(self, *, create: bool = False) -> Books:
        """Open the operator's books until the command ends. Raises NotFound, LedgerError."""
        location = self.config.storage.location
        try:
            with self.progress() as progress:
                books = open_books(location, create=create, progress=progress)
        except LedgerMissing as error:
            what = "ledger in" if isinstance(location, DatabaseUrl) else "database at"
            raise NotFound(
                f"there is no {what} {location}; 'serve' or 'account add' makes one"
            ) from error
        books.actor = self.actor
        return self.closing.enter_context(books)

    def progress(self) -> AbstractContextManager[Progress]:
        """Show on a terminal the progress of what may take long."""
        return nullcontext(ignore) if self.as_json else show_progress(self.output.err)

    def format_money(self, amount_nano: int) -> str:
        return f"{format_amount(amount_nano)} {self.currency}"

    def say(self, words: str) -> None:
        """Write a message for people to stderr."""
        self.output.say(words)

    def show(self, value: Json, text: str = "") -> None:
        """Write JSON to stdout if it was asked for, else the text if there is one."""
        if self.as_json:
            self.output.print_json(value)
        elif text:
            self.output.print(text)

    def show_list(
        self, rows: Sequence[Row], fields: Fields[Row], total: Sequence[str] = ()
    ) -> None:
        """Write rows to stdout: as JSON if it was asked for, else as a table with a total."""
        now_ms = unix_ms()
        described = [fields.describe(row, now_ms) for row in rows]
        self.show(described, render(fields.columns, rows, self.currency, total))


def write_new(verb: str, target: Path, data: bytes) -> None:
    """Write a new file, or none. Raises Conflict if there is one, and Refused if it cannot be written."""
    try:
        new = target.open("xb")
    except FileExistsError as error:
        raise Conflict(f"{target} exists already; {verb} overwrites nothing") from error
    except OSError as error:
        reason = find_advice().find_obstacle(target, os.W_OK) or error.strerror
        raise Refused(f"{target}: cannot be written: {reason}") from error
    try:
        with new:
            new.write(data)
    except BaseException as error:  # also Ctrl-C: the next try must not find half a file
        target.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise Refused(f"{target}: cannot be written: {error.strerror}") from error
        raise


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
    if sys.stdout is None:
        sys.stdout = _open_closed()
    output = Output(_tolerant(sys.stdout), _tolerant(sys.stderr))
    try:
        code = _run(words, os.environ if environ is None else environ, output)
        # Flushed here, where an error can be reported; Python would raise it at exit.
        output.out.flush()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except OSError as error:
        # It may be stdout itself that failed, so nothing more goes there.
        if error.filename is None:
            _silence(output.out)
        if not isinstance(error, BrokenPipeError):  # `head` and the like close the pipe on purpose
            output.say(f"{PROGRAM}: {_describe(error)}")
        return ExitCode.FAILED
    return code


def _run(words: Sequence[str], environ: Mapping[str, str], output: Output) -> int:
    """Parse the words, load the configuration and run the verb; turn known errors into a message."""
    if unmet := find_unmet():
        output.say(f"{PROGRAM}: {unmet}")
        return ExitCode.FAILED
    try:
        options = parse(words)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else ExitCode.USAGE
    if options.version:
        output.print(f"gateway {describe_version(VERSION)}")
        return ExitCode.OK
    path = Path(options.config or environ.get("GATEWAY_CONFIG") or DEFAULT_CONFIG)
    try:
        config = options.verb.load(path, environ)
        with ExitStack() as closing:
            actor = find_actor(environ)
            command = Command(config, output, actor, options.json, closing)
            code = options.verb.run(command, **options.find_arguments())
    except tuple(kind for kind, _ in FAILURES) as error:
        for line in str(error).splitlines():
            output.say(f"{PROGRAM}: {line}")
        return next(code for kind, code in FAILURES if isinstance(error, kind))
    return code or ExitCode.OK


def _describe(error: OSError) -> str:
    """Name the file, and what is in the way or else the system's own words."""
    if not isinstance(error.filename, str):
        return "stdout is closed" if error.errno == errno.EBADF else f"{error.strerror}"
    path = Path(error.filename)
    return f"{path}: {find_advice().explain_error(path, error.errno) or error.strerror}"


def _open_closed() -> TextIO:
    """Return a stream in place of a closed stdout. To write to it fails, as "Bad file descriptor".

    A key that is shown only once must not vanish as if it had been written.
    """
    return os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")


def _tolerant(stream: TextIO | None) -> TextIO:
    """Make a stream write characters that its encoding lacks as escapes; discard if it is closed."""
    if stream is None:
        return Path(os.devnull).open("w")
    if isinstance(stream, TextIOWrapper):
        with suppress(OSError):  # what was written before does not fit; the command's end tells it
            stream.reconfigure(errors="backslashreplace")
    return stream


def _silence(stream: TextIO) -> None:
    """Redirect a broken stream to nowhere: Python would report the error again when it exits."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
