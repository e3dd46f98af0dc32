"""The settings of [console] that are about its look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from gateway.config import scalars as read
from gateway.config.reader import Setting
from gateway.config.records import Config
from gateway.config.secrets import ReadTable
from gateway.extras.brand.logos import Logo, read_logo

MAX_NAME_CHARS: Final = 40
"""Characters of a name: more do not fit beside the menu."""


def _name(value: object) -> str:
    name = read.text(value).strip()
    if len(name) > MAX_NAME_CHARS:
        raise ValueError(f"must have at most {MAX_NAME_CHARS} characters, not {len(name)}")
    return name


@dataclass(frozen=True, slots=True)
class Brand:
    name: Annotated[str | None, Setting(_name, None)]
    accent: Annotated[
        str | None, Setting(read.matching(r"#[0-9A-Fa-f]{6}", 'a colour such as "#0b6b5e"'), None)
    ]
    logo: Annotated[Logo | None, Setting(read.text, None)]


def finish(table: ReadTable) -> Mapping[str, object]:
    """Read the logo's file, but for commands that read no secrets: they may run as somebody else."""
    logo, path = None, table.values["logo"]
    if path is not None and table.look_up is not None:
        try:
            logo = read_logo(Path(table.place.file).absolute().parent, path)
        except ValueError as error:
            raise table.place.error("logo", str(error)) from error
    return {**table.values, "logo": logo}


def find_name(config: Config) -> str | None:
    return config.find(Brand).name
