"""Alerts of models and providers that are switched off: one at the switch, and one when they are on again."""

from __future__ import annotations

from typing import Final, get_args

from gateway.config.records import Config
from gateway.extras.alerts.records import Lasting, Problems
from gateway.extras.switches.book import list_switches
from gateway.extras.switches.records import Kind, list_names
from gateway.ledger.sql.books import Books


def find_problems(books: Books, config: Config) -> Problems:
    """Find the switches of this process's gateway.toml; other processes may serve by another file."""
    off = {f"{one.kind} {one.name}": one for one in list_switches(books, config)}
    kinds: tuple[Kind, ...] = get_args(Kind)
    known = [(kind, name) for kind in kinds for name in list_names(config, kind)]
    return Problems(
        standing={
            subject: f"{one.kind.capitalize()} {one.name} is {one.reason}."
            for subject, one in off.items()
            if one.in_file
        },
        ended={
            f"{kind} {name}": f"{kind.capitalize()} {name} is switched on again."
            for kind, name in known
        },
        unknown=frozenset(subject for subject, one in off.items() if not one.in_file),
    )


LASTING: Final = Lasting("switched_off", find_problems)
