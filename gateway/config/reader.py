"""Read TOML tables into typed values, with errors that name the place and the rule.

A reader takes a TOML value and returns it typed, or raises ValueError with the rule ("must be …");
`read_table` adds file, table and key. Nothing here is specific to the gateway.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from gateway.base.process import PROGRAM
from gateway.extension import find_advice

if TYPE_CHECKING:
    from pathlib import Path

Read = Callable[[object], Any]

_SHOWN_CHARS: Final = 40
"""Characters of a wrong value that an error repeats, so that it stays one line."""
HIDDEN: Final = "a text that may be a secret"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_WORD = re.compile(r"[A-Za-z0-9]{12,}|[0-9]{10,}")
_PLAIN_WORD = re.compile(r"[A-Z]+|[A-Za-z]?[a-z]+(?:[A-Z][a-z]{2,})*")
_MAX_DIGITS: Final = 15
"""Digits of a number that an error repeats: one of a card, or a key, has more."""

REQUIRED: Final = object()
"""Marks a setting without a default, which must be in the file."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of a table."""

    read: Read
    default: object = REQUIRED
    """A TOML value, read like one from the file; None if the value may be absent."""
    what: str = ""
    """Its meaning, for the error if it is missing."""
    subject: str = ""
    """The name by which advice knows what the value is; "" if advice does not look at it."""


def parse_toml(path: Path, data: bytes) -> dict[str, object]:
    """Parse the bytes of a TOML file, with fractions as Decimal. Raises ConfigError."""
    return _parse(path, _decode(path, data))


def parse_table(path: Path, name: str) -> object:
    """Read one table of a TOML file that may be broken elsewhere; {} if there is no such table.

    Raises:
        ConfigError: the file is missing or unreadable, or the table's own lines are not TOML.
    """
    text = _decode(path, read_file(path))
    try:
        root = _parse(path, text)
    except ConfigError:
        # Operators need the ledger even while the file is broken elsewhere: cut the table out.
        heading = rf"^[ \t]*\[[ \t]*{re.escape(name)}[ \t]*\]"
        found = re.search(rf"{heading}.*\n(?:(?![ \t]*\[).*\n?)*", text, re.MULTILINE)
        root = _parse(path, found[0]) if found else {}
    return root.get(name, {})


def read_file(path: Path) -> bytes:
    """Read a file, which may be a pipe: it can be read only once. Raises ConfigError."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path}: there is no such file. Name yours with --config FILE or in GATEWAY_CONFIG, "
            f"or write one: {PROGRAM} init"
        ) from error
    except OSError as error:
        reason = find_advice().find_obstacle(path, os.R_OK) or error.strerror
        raise ConfigError(f"{path}: cannot be read: {reason}") from error


def _decode(path: Path, data: bytes) -> str:
    try:
        # Windows' editors begin a file with a byte order mark.
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        told = find_advice().explain(error, "") or f"the byte at {error.start} is not"
        raise ConfigError(f"{path}: must be UTF-8 text; {told}") from error
    if "\0" in text:
        kind = "UTF-16 or damaged" if text.strip("\0 \r\n") else "empty, as a crash leaves it"
        raise ConfigError(f"{path}: has zero bytes, so it is {kind}: restore it, as UTF-8 text")
    return text


def _parse(path: Path, text: str) -> dict[str, object]:
    try:
        # Decimal raises ArithmeticError for an exponent beyond its range, and tomllib is recursive.
        return tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise ConfigError(f"{path}: is not valid TOML: {_describe_syntax(error, text)}") from error


def _describe_syntax(error: Exception, text: str) -> str:
    if isinstance(error, tomllib.TOMLDecodeError):
        where = str(error).rpartition(" (at ")[2]
        if meant := find_advice().explain(error, text):
            return f"{meant} (at {where}"
        return f"{HIDDEN} (at {where}" if looks_secret(str(error)) else str(error)
    return "a number is too long" if not isinstance(error, RecursionError) else "nested too deeply"


def looks_secret(text: str) -> bool:
    """Tell whether a text may have a key or a password in it: a long token that is not a plain word."""
    words = _WORD.findall(text)
    return "sk-" in text or not all(_PLAIN_WORD.fullmatch(word) for word in words)


def quote_key(name: str, *, always: bool = False) -> str:
    """Write a key as in a TOML table heading, in quotes if it needs them."""
    # A secret may have been pasted in the place of a name.
    if looks_secret(name):
        return HIDDEN
    bare = _BARE_KEY.fullmatch(name) and not always
    return name if bare else json.dumps(name, ensure_ascii=False)


def read_table(
    place: Place, raw: object, settings: Mapping[str, Setting], problems: Problems | None = None
) -> dict[str, Any]:
    """Read all values of a table, with defaults; the result has the keys of `settings`.

    If `problems` is given, errors of keys are added to it, and the result lacks those keys.

    Raises:
        ConfigError: not a table, unknown keys, missing keys, or values their readers refuse.
    """
    if not isinstance(raw, dict):
        raise place.error("", f"must be a table, not {show(raw)}")
    values, found = {}, Problems() if problems is None else problems
    for key in dict.fromkeys((*raw, *settings)):  # in the order of the file
        with found.collect():
            if key not in settings:
                raise place.error(quote_key(key), f"unknown key; {suggest(key, settings)}")
            values[key] = _read_setting(place, key, raw, settings[key])
    if problems is None:
        found.raise_all()
    return values


def _read_setting(place: Place, key: str, raw: Mapping[str, object], setting: Setting) -> object:
    value = raw.get(key, setting.default)
    if value is None:
        return None
    if value is REQUIRED:
        raise place.error(key, f"is missing; it is {setting.what}")
    try:
        return read_value(setting.read, value, setting.subject)
    except ValueError as error:
        raise place.error(key, str(error)) from error


def read_value(read: Callable[..., object], value: object, subject: str) -> object:
    """Read a value, unless advice on its subject objects to it. Raises ValueError."""
    found, problem = None, ""
    try:
        found = read(value)
    except ValueError as error:
        problem = str(error)
    if problem := find_advice().judge(subject, value, problem):
        raise ValueError(problem)
    return found


def suggest(name: str, known: Iterable[str]) -> str:
    """Suggest the name that may have been meant, or list the known names."""
    names = list(known)
    if meant := find_advice().guess(name, names):
        return f'did you mean "{meant}"?'
    return f"known here: {', '.join(names)}" if names else "there are none"


def show(value: object) -> str:
    """Render a value for an error message, short and on one line; what may be a secret is not shown."""
    if isinstance(value, bool):  # before int, which a bool is as well
        return str(value).lower()
    if isinstance(value, str):
        shown = value if len(value) <= _SHOWN_CHARS else value[:_SHOWN_CHARS] + "…"
        return HIDDEN if looks_secret(value) else json.dumps(shown, ensure_ascii=False)
    if isinstance(value, int | Decimal):
        is_long = isinstance(value, int) and abs(value) >= 10**_MAX_DIGITS  # too long for str()
        return "a number that long" if is_long or len(str(value)) > _MAX_DIGITS else str(value)
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "an array"
    return "a date or time"


MAX_TOLD: Final = 10
"""Problems that are listed; more are only counted, as one mistake can cause many."""


class ConfigError(Exception):
    """The configuration is invalid. Each problem names file, table and key and says what to do."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        more = len(self.problems) - MAX_TOLD
        return "\n".join((*self.problems[:MAX_TOLD], *([f"and {more} more"] if more > 0 else [])))


class Problems:
    """Collects the errors of parts that are read one after the other."""

    def __init__(self, tables: Iterable[str] = ("",)) -> None:
        """`tables`: the order in which their problems are listed."""
        self.doubts: list[str] = []
        """Settings that are valid, but probably not meant."""
        self._by_table: dict[str, list[str]] = {table: [] for table in tables}

    @contextmanager
    def collect(self, table: str = "") -> Iterator[None]:
        """Keep the problems of a ConfigError, and go on behind the `with` statement."""
        try:
            yield
        except ConfigError as error:
            self.add(error, table)

    def add(self, error: ConfigError, table: str = "") -> None:
        self._by_table.setdefault(table, []).extend(error.problems)

    def __bool__(self) -> bool:
        return any(self._by_table.values())

    def raise_all(self) -> None:
        """Raise ConfigError if there was any problem."""
        if self:
            raise ConfigError(*chain.from_iterable(self._by_table.values()))


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file, for errors."""

    file: str
    table: str = ""
    within: str = ""
    """The key of an inline table, with a trailing dot."""

    def error(self, key: str, problem: str) -> ConfigError:
        """Return the error to raise for `key`; an empty key means the table itself."""
        named = " ".join(part for part in (self.table, self.within + key) if part)
        return ConfigError(
            f"{self.file}: {named}: {problem}" if named else f"{self.file}: {problem}"
        )
