"""Secrets of gateway.toml: where each one is, and the look-up. No message repeats one."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeGuard

from gateway.config.reader import Place
from gateway.extension import find_advice, find_extras, find_missing

COMMAND: Final = "command:"
"""The beginning of a key's place if a command prints the key."""
_WORD = re.compile(r"[\x21-\x7e]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE = re.compile(r"(env|file|command):.")
SECRET_HEADER = re.compile(r"auth|cookie|credential|key|password|secret|token", re.IGNORECASE)
_VARIABLE_USE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


def secret(value: object) -> str:
    """Read the place of a secret (`env:`, `file:`) or the secret itself, without resolving it."""
    if not isinstance(value, str):
        raise ValueError('must be a text: "env:NAME", "file:PATH" or the value itself')  # noqa: TRY004 - a reader's one error
    if not value:
        raise ValueError("must not be empty; leave it out where none is needed")
    if value.startswith(COMMAND):
        raise ValueError("must not be a command, which only api_key of a provider can be")
    kind, colon, rest = value.partition(":")
    if colon and kind == "env" and not _VARIABLE.fullmatch(rest):
        raise ValueError('must name an environment variable: "env:NAME"')
    if colon and kind == "file" and not rest.strip():
        raise ValueError('must name a file: "file:PATH"')
    return value


def provider_key(value: object) -> str:
    """Read the place of a provider's key, which may be a command, or the key itself."""
    if not isinstance(value, str) or not value.startswith(COMMAND):
        return secret(value)
    if not any(COMMAND in extra.key_places for extra in find_extras().values()):
        raise ValueError(f"{COMMAND} {find_missing('key_places', COMMAND)}")
    try:
        words = split_command(value)
    except ValueError:  # a quotation mark is missing
        words = []
    if not words:
        raise ValueError('must name a command: "command:PROGRAM ARGUMENT ..."')
    return value


def split_command(place: str) -> list[str]:
    """Return the program and its arguments. Raises ValueError if a quotation is not closed."""
    return shlex.split(place.removeprefix(COMMAND))


def provider_keys(value: object) -> tuple[str, ...]:
    """Read one place of a provider's key, or an array of some."""
    if not isinstance(value, list):
        return (provider_key(value),)
    if not value:
        raise ValueError("must not be empty; leave it out where none is needed")
    places = tuple(map(provider_key, value))
    if len(set(places)) < len(places):
        raise ValueError("has the same key twice")
    return places


@dataclass(frozen=True, slots=True)
class Mistake:
    """Why a text cannot be the secret that it stands for."""

    problem: str
    """A predicate about the text, such as "is a placeholder"."""
    write: str
    """Advice for a text that stands in gateway.toml itself."""
    hold: str = "the {}"
    """The content that a variable or a file must have, if the text is in one; {} is the kind of secret."""


_NO_WORD: Final = Mistake(
    "is not one word of printable ASCII", "write it without spaces and line breaks"
)


def find_mistake(secret: str, *, written: bool = False) -> Mistake | None:
    """Return why a text cannot be a secret. If it is `written`, it stands in gateway.toml itself."""
    # Most secrets become a header's value, where a line break would begin another header.
    own = None if _WORD.fullmatch(secret) else _NO_WORD
    return find_advice().find_mistake(secret, written) or own


def resolve_secret(
    value: str, folder: Path, environ: Mapping[str, str], meant: str = "key"
) -> tuple[str, str | None]:
    """Return the secret and None, or "" and the reason why the provider is off; `meant` says what it is.

    Raises ValueError for what the operator can see in gateway.toml itself, and for a file that cannot be
    read. A wrong text in a variable or a file does not keep the gateway from starting.
    """
    if value.startswith(COMMAND):
        return "", None  # it is run while the gateway serves
    kind, _, rest = value.partition(":")
    if kind == "env" and rest:
        secret, holder = environ.get(rest, "").strip(), f"environment variable {rest}"
        if not secret:
            return "", f"the {holder} is {'empty' if rest in environ else 'not set'}"
        ask = f"set {rest} to"
    elif kind == "file" and rest:
        path = folder / expand_variables(rest, environ)
        secret, holder, ask = _read_secret(path), f"file {path}", "write into it"
    else:
        if mistake := find_mistake(value, written=True):
            raise ValueError(f"{mistake.problem}: {mistake.write}")
        return value, None
    if mistake := find_mistake(secret):
        return "", f"the {holder} {mistake.problem}: {ask} {mistake.hold.format(meant)}"
    return secret, None


Found = tuple[str, str | None]
"""A secret and None, or "" and why it is missing."""
LookUp = Callable[[str], Found]


def resolve(
    place: Place,
    key: str,
    value: str,
    look_up: LookUp,
    check: Callable[[str], object] = lambda _: None,
) -> Found:
    """Look a secret up, and check it if it is there. Raises ConfigError."""
    try:
        secret, reason = look_up(value)
        if reason is None:
            check(secret)
    except ValueError as error:
        raise place.error(key, str(error)) from error
    return secret, reason


def expand_variables(path: str, environ: Mapping[str, str]) -> str:
    """Replace `$NAME` and `${NAME}`, so that systemd's $CREDENTIALS_DIRECTORY can be used."""

    def expand(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if not environ.get(name):
            raise ValueError(f"needs the environment variable {name}, which is not set")
        return environ[name]

    return _VARIABLE_USE.sub(expand, path)


def _read_secret(path: Path) -> str:
    try:
        # Editors and `echo` end a file with a line break.
        return path.read_text(encoding="utf-8").strip()
    # The error's own text quotes a byte of the secret.
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot be read from {path}: the file is not UTF-8 text") from error
    except OSError as error:
        reason = find_advice().find_obstacle(path, os.R_OK) or error.strerror
        raise ValueError(f"cannot be read from {path}: {reason}") from error


def is_literal(value: object) -> TypeGuard[str]:
    """Tell whether a value of the file is a text that names no other place."""
    return isinstance(value, str) and not _PLACE.match(value)
