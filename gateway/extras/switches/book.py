"""Switches in the log of events: the last event of a model or a provider says whether it is off.

Every database keeps the log for good, and it moves with the ledger. So one row says who switched, and what is
in force.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateway.config.records import Config
from gateway.extras.switches.records import Kind, Switch, list_names, make_unknown
from gateway.ledger import checks
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Part

_EVENTS: Final = """
    SELECT at_ms, actor, action, target, detail FROM events
    WHERE action IN ('model.off', 'model.on', 'provider.off', 'provider.on') ORDER BY id
"""


class SwitchBook(Part):
    def read_all(self) -> list[Switch]:
        """Return what is switched off."""
        off: dict[tuple[Kind, str], Switch] = {}
        for at_ms, actor, action, name, note in self._database.fetch(_EVENTS):
            kind, _, state = action.partition(".")
            before = off.pop((kind, name), None)
            if state == "off":
                since_ms = at_ms if before is None else before.since_ms
                off[kind, name] = Switch(kind, name, since_ms, actor, note)
        return list(off.values())

    def set_off(self, kind: Kind, name: str, note: str) -> bool:
        """Switch off, or change the note of what is off; return whether that changed anything."""
        with self._database.changing():
            before = self.find(kind, name)
            if before is not None and note in {"", before.note}:
                return False
            self._append(f"{kind}.off", name, note)
            return True

    def set_on(self, kind: Kind, name: str) -> bool:
        """Switch on; return whether it was off."""
        with self._database.changing():
            was_off = self.find(kind, name) is not None
            if was_off:
                self._append(f"{kind}.on", name, "")
            return was_off

    def find(self, kind: Kind, name: str) -> Switch | None:
        return next((one for one in self.read_all() if (one.kind, one.name) == (kind, name)), None)

    def _append(self, action: str, name: str, note: str) -> None:
        self._database.note(action, account=None, target=name, detail=note)
        self._database.tell_extras()


def list_switches(books: Books, config: Config) -> list[Switch]:
    """Return what is switched off, and whether gateway.toml has it."""
    found = SwitchBook(books).read_all()
    return [replace(one, in_file=one.name in list_names(config, one.kind)) for one in found]


def switch_off(books: Books, config: Config, kind: Kind, name: str, note: str) -> bool:
    """Switch off a model or a provider of gateway.toml; return False if that changes nothing.

    Raises NotFound with the names that may be meant; Refused for a note that cannot be kept.
    """
    checks.require_note("the note", note)
    if name not in list_names(config, kind):
        raise make_unknown(config, kind, name)
    return SwitchBook(books).set_off(kind, name, note)


def switch_on(books: Books, config: Config, kind: Kind, name: str) -> bool:
    """Switch on, also what gateway.toml no longer has; return False if it was not off. Raises NotFound."""
    was_off = SwitchBook(books).set_on(kind, name)
    if not was_off and name not in list_names(config, kind):
        raise make_unknown(config, kind, name)
    return was_off
