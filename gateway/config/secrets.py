"""Secrets of gateway.toml: where each one is, and the look-up. No message repeats one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gateway.file_access import READ, find_obstacle

_SECRET = re.compile(r"[\x21-\x7e]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE_USE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


def secret(value: object) -> str:
    """Read the place of a secret (`env:`, `file:`) or the secret itself, without resolving it."""
    if not isinstance(value, str):
        raise ValueError('must be a text: "env:NAME", "file:PATH" or the value itself')  # noqa: TRY004 - a reader's one error
    if not value:
        raise ValueError("must not be empty; leave it out where none is needed")
    kind, colon, rest = value.partition(":")
    if colon and kind == "env" and not _VARIABLE.fullmatch(rest):
        raise ValueError('must name an environment variable: "env:NAME"')
    if colon and kind == "file" and not rest.strip():
        raise ValueError('must name a file: "file:PATH"')
    return value


def secrets(value: object) -> tuple[str, ...]:
    """Read one place of a secret, or an array of some."""
    if not isinstance(value, list):
        return (secret(value),)
    if not value:
        raise ValueError("must not be empty; leave it out where none is needed")
    places = tuple(map(secret, value))
    if len(set(places)) < len(places):
        raise ValueError("has the same key twice")
    return places


def resolve_secret(value: str, folder: Path, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the secret and None, or "" and the reason why the provider is off."""
    kind, _, rest = value.partition(":")
    if kind == "env" and rest:
        found = environ.get(rest, "").strip()
        if not found:
            return "", f"the environment variable {rest} is not set"
        return _check_secret(found, f"the environment variable {rest}"), None
    if kind == "file" and rest:
        path = folder / expand_variables(rest, environ)
        return _check_secret(_read_secret(path), f"the file {path}"), None
    return _check_secret(value, "it"), None


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
        return path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot be read from {path}: the file is not UTF-8 text") from error
    except OSError as error:
        reason = find_obstacle(path, READ) or error.strerror
        raise ValueError(f"cannot be read from {path}: {reason}") from error


def _check_secret(secret: str, holder: str) -> str:
    if not _SECRET.fullmatch(secret):
        raise ValueError(f"must be one word of printable ASCII, which {holder} does not hold")
    return secret
