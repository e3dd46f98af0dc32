"""The settings of [console] that are about its look, and the file of a logo: a small picture that browsers show."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from gateway.config import scalars as read
from gateway.config.reader import HIDDEN, Setting, looks_secret
from gateway.config.records import Config, ReadTable
from gateway.extension import find_advice

MAX_NAME_CHARS: Final = 40
"""Characters of a name: more do not fit beside the menu."""
MAX_LOGO_BYTES: Final = 64 * 1024
"""Bytes of the largest file: every visitor loads it, and it is kept in memory."""
_NAMESPACE: Final = b"http://www.w3.org/2000/svg"
_KINDS: Final = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    "image/svg+xml": re.compile(
        rb"(?:\xef\xbb\xbf)?\s*(?:<(?:\?xml|!DOCTYPE)[^>]*>\s*|<!--(?:[^-]|-(?!->))*-->\s*)*<svg[\s>]"
    ),
}
"""How files of each kind begin. Their names are not looked at."""


def _name(value: object) -> str:
    name = read.text(value).strip()
    if len(name) > MAX_NAME_CHARS:
        raise ValueError(f"must have at most {MAX_NAME_CHARS} characters, not {len(name)}")
    return name


@dataclass(frozen=True, slots=True)
class Logo:
    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Brand:
    name: Annotated[str | None, Setting(_name, None)]
    accent: Annotated[
        str | None, Setting(read.matching(r"#[0-9A-Fa-f]{6}", 'a colour such as "#0b6b5e"'), None)
    ]
    logo: Annotated[Logo | None, Setting(read.text, None)]


def check_values(table: ReadTable) -> Mapping[str, object]:
    """Read the logo's file, except in commands that read no secrets: they may run as another user."""
    logo, path = None, table.values["logo"]
    if path is not None and table.look_up is not None:
        try:
            logo = read_logo(Path(table.place.file).absolute().parent, path)
        except ValueError as error:
            raise table.place.error("logo", str(error)) from error
    return {**table.values, "logo": logo}


def read_logo(folder: Path, name: str) -> Logo:
    """Read a file that is named from a folder. Raises ValueError that names it and says what to do."""
    path, told = folder / name, HIDDEN if looks_secret(name) else str(folder / name)
    try:
        if path.exists() and not path.is_file():  # a pipe or a device may never end
            raise ValueError(f"must be a file, which {told} is not")
        with path.open("rb") as file:
            body = file.read(MAX_LOGO_BYTES + 1)
    except OSError as error:
        reason = None if told == HIDDEN else find_advice().find_obstacle(path, os.R_OK)
        raise ValueError(f"cannot be read from {told}: {reason or error.strerror}") from error
    if len(body) > MAX_LOGO_BYTES:
        raise ValueError(f"has more than {MAX_LOGO_BYTES // 1024} KiB in {told}: make it smaller")
    kind = next((kind for kind, begins in _KINDS.items() if begins.match(body)), None)
    if kind is None:
        raise ValueError(f"must be an SVG, PNG or WebP, and {told} is none: convert it")
    if kind == "image/svg+xml" and _NAMESPACE not in body:
        raise ValueError(
            f'cannot be shown by browsers: write xmlns="{_NAMESPACE.decode()}" into <svg> in {told}'
        )
    return Logo(kind, body)


def find_name(config: Config) -> str | None:
    return config.find(Brand).name
