"""Records of models and providers that are switched off."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

from gateway.admin.fields import Fields
from gateway.base.times import format_moment
from gateway.config.records import Config
from gateway.ledger.records import NotFound

Kind = Literal["model", "provider"]

_LIKE: Final = 0.65
"""The least likeness of a name that is suggested: high, as a wrong one would be switched off for everybody."""
_NAMED: Final = 8
"""Names that are listed where none is like it: more would hide what is wrong."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A model or a provider that is switched off."""

    kind: Kind
    name: str
    since_ms: int
    by: str
    """The actor who switched it off, or who changed the note since."""
    note: str
    in_file: bool = True
    """Whether gateway.toml has it; otherwise the switch has no effect."""

    @property
    def reason(self) -> str:
        """Return why it is off, for lists and the log."""
        note = f": {self.note}" if self.note else ""
        return f"switched off on {format_moment(self.since_ms)} UTC by {self.by}{note}"

    @property
    def effect(self) -> str:
        return "off" if self.in_file else "no effect: gateway.toml does not have it"


def list_names(config: Config, kind: Kind) -> Collection[str]:
    """Return the names that can be switched."""
    return config.models.keys() if kind == "model" else config.providers.keys()


SWITCH: Final = Fields[Switch](
    *("kind", "name", "since_ms", "by", "note", "in_file"),
    table=("kind", "name", ("OFF SINCE UTC", "since_ms"), "by", "note", ("STATE", "effect")),
)


def make_unknown(config: Config, kind: Kind, name: str) -> NotFound:
    """Say that there is no such name, and which one may be meant."""
    from gateway.api.admission import find_similar  # for errors only

    names = {one: one for one in list_names(config, kind)}
    if kind == "model":
        names |= {word: one.id for one in config.models.values() for word in one.aliases}
    similar = find_similar(name, [*names], _LIKE)
    hint = "`check` lists them"
    if similar:
        hint = f"did you mean '{names[similar]}'?"
    elif len(own := list_names(config, kind)) <= _NAMED:
        hint = f"it has {', '.join(own)}" if own else "it has none"
    return NotFound(f"there is no {kind} '{name}' in gateway.toml; {hint}")
