"""Names of members that the gateway reads or writes, and other spellings that a provider may read as them.

Providers written in Go match names without regard to case (`encoding/json`), and use the last of several
matches. Google's endpoints read camelCase as well as snake_case. So a member `Max_Tokens` or `maxTokens`
would pass unchecked here and take effect there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from gateway.base.errors import BadRequest
from gateway.dialects.wire.records import Json

_MAX_CHARS: Final = 4096
"""Characters of a name that is compared: a longer one could only match if it were nearly all `_` and `-`,
and folding a megabyte takes milliseconds."""
_SHOWN_CHARS: Final = 100
"""Characters of a name that an error shows. Longer ones are mostly `_` and `-`."""
_NONE: Final[Mapping[str, Names]] = MappingProxyType({})
_ELSEWHERE: Final = ""


def fold(name: str) -> str:
    """Return a name without differences that providers may ignore: Unicode's case, `_` and `-`."""
    # `casefold` maps 'ſ' to s and the Kelvin sign to k, as Go's `strings.EqualFold` does.
    return name.casefold().replace("_", "").replace("-", "")


class Names:
    """The members of an object, or of the objects in an array, that the gateway reads or writes."""

    __slots__ = ("_folded", "inner", "known", "plain")

    def __init__(
        self,
        known: Iterable[str],
        inner: Mapping[str, Names] = _NONE,
        elsewhere: Iterable[str] = (),
    ) -> None:
        """`inner`: the names within members. `elsewhere`: names that belong to the object around this one."""
        self.known = frozenset((*known, *inner))
        self.plain = self.known.difference(inner)
        """The names of members that need no look inside: nearly all objects have no others."""
        self._folded = dict.fromkeys(map(fold, elsewhere), _ELSEWHERE)
        # If two known names fold alike, errors use the one with `_`, which sorts last.
        self._folded.update((fold(name), name) for name in sorted(self.known))
        self.inner = inner

    def maybe_meant(self, name: str) -> str | None:
        """Return the known name as which a provider may read `name`; "" if it belongs to an outer object."""
        return self._folded.get(fold(name)) if len(name) <= _MAX_CHARS else None

    def check(self, where: str, held: object, item: str = "[{}]") -> None:
        """Refuse a member that could be read as another one. Raises BadRequest.

        `item` is how errors name an item of an array.
        """
        if type(held) is dict and held.keys() <= self.plain:
            return
        if found := self.find(held, item):
            raise refuse_spelling(where + found[0], found[1])

    def find(self, held: object, item: str) -> tuple[str, str] | None:
        """Return the path of a member that could be read as another one, and that one's name."""
        if type(held) is list:
            for index, one in enumerate(held):
                if type(one) is not dict or one.keys() <= self.plain:
                    continue
                if found := self._find_member(one, item):
                    return f"{item.format(index)}{found[0]}", found[1]
            return None
        return self._find_member(held, item) if type(held) is dict else None

    def _find_member(self, held: Json, item: str) -> tuple[str, str] | None:
        known = self.known
        if not held.keys() <= known:
            for name in held:
                if name not in known and (meant := self.maybe_meant(name)) is not None:
                    return f".{name}", meant
        for name, inner in self.inner.items():
            if name in held and (found := inner.find(held[name], item)):
                return f".{name}{found[0]}", found[1]
        return None


def check_spelling(where: str, held: Json, meant: str) -> None:
    """Refuse a member that could be read as `meant`, a name that the caller chose. Raises BadRequest."""
    if len(meant) > _MAX_CHARS:
        return
    folded = fold(meant)
    for name in held:
        if name != meant and len(name) <= _MAX_CHARS and fold(name) == folded:
            raise refuse_spelling(f"{where}.{name}", meant)


def refuse_spelling(name: str, meant: str) -> BadRequest:
    """Make the error for a member that a provider may read as the one `meant`."""
    shown = name[:_SHOWN_CHARS]
    why = f"could be read as '{meant}' by the provider. Write '{meant}'"
    if meant == _ELSEWHERE:
        outer, _, inner = shown.rpartition(".")
        why = f"would not be checked there. Send '{inner}' outside '{outer}'"
    return BadRequest(
        f"Unsupported parameter: '{shown}' {why}.", param=shown, code="unsupported_parameter"
    )
