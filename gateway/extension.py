"""What an extra may bring: all that the core knows of extras.

An extra is a folder `extras/NAME` with all of one addition: settings, paths, documents. Its `__init__`
has an `Extra` named `EXTRA`, whose functions import the rest of the folder when they are called. Extras
are found by looking into `extras`, so there is no list to keep, and a folder may be deleted. The core
imports none of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.api.routes import Endpoint
    from gateway.api.state import Gateway

FOLDER: Final = Path(__file__).with_name("extras")
INDEX: Final = FOLDER / "index.toml"
"""Says which extra reads a table of gateway.toml, for errors about one that was taken away."""


@dataclass(frozen=True, slots=True)
class Started:
    """An extra at work in a process that serves."""

    endpoints: Sequence[Endpoint] = ()
    """Paths of `/v1`. One with the method and the path of another takes its place."""
    reconfigure: Callable[[], object] = lambda: None
    """Called when `Gateway.config` has changed."""
    close: Callable[[], object] = lambda: None
    """Called at the very end."""


@dataclass(frozen=True, slots=True)
class Extra:
    """What an extra adds. A function imports what it needs when it is called."""

    tables: Mapping[str, Callable[[], type]] = field(default_factory=dict)
    """The record of each of its tables in gateway.toml, with settings as in `config.records`.
    `Config.extras` has what was read, by the table's name."""
    start: Callable[[Gateway], Started] | None = None
    """Starts it beside a gateway; None if it has nothing that serves."""


@cache
def find_extras() -> Mapping[str, Extra]:
    """Return the extras of this installation by name."""
    names = sorted(one.parent.name for one in FOLDER.glob("*/__init__.py"))
    return {name: import_module(f"gateway.extras.{name}").EXTRA for name in names}


@cache
def find_tables() -> Mapping[str, type]:
    """Return the record of each extra's table in gateway.toml."""
    return {
        table: find() for extra in find_extras().values() for table, find in extra.tables.items()
    }


def find_missing(table: str) -> str | None:
    """Return the name of the extra that would read a table; None if none is known to do so."""
    if not INDEX.is_file():
        return None
    named: str | None = tomllib.loads(INDEX.read_text(encoding="utf-8"))["tables"].get(table)
    return named
