"""Ids and names of tool calls, for all dialects: unique for callers, and as each provider takes them back.

Some providers number their calls (`call_0` in each reply) or give no ids. Clients loop if an id repeats,
and most providers refuse a conversation in which one does. So the caller gets an id that may repeat with
the provider's tag and a mark of the reply appended. Both are removed on the way back to that provider,
which may depend on the form of its ids (Kimi). Other providers get the caller's id, in a form they take.

Models invent names of tools (`browser.tabs.open`, or an empty one). Clients answer such a call with an
error and send it back with every later request, where most providers refuse the name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gateway.dialects.wire.records import History, Json, ReplyContext

CALL_PREFIX: Final = "call_"
NO_ID: Final = "call"
"""The id for a call without one: some providers give none, and clients send such calls back."""
MAX_ID_CHARS: Final = 64
"""The longest id that OpenAI's Responses API and Claude at Bedrock take. OpenAI's chat completions take
fewer characters (`_OPENAI_CHARS`). Other vendors state no limit."""
_MARK: Final = "-gw2-"
_HEX_CHARS: Final = 8
"""Hex characters of a reply's mark and of a shortened name's hash: enough to be unique in a conversation."""
_MARKED: Final = re.compile(rf"(.+){_MARK}([0-9a-f]{{8}})-[0-9a-f]{{8}}", re.DOTALL)
_RANDOM: Final = re.compile(r"(?=[A-Za-z]*\d)[A-Za-z0-9]{8,}")
"""Matches the random part of an id. A numbered id has a shorter part, or one without digits."""
_COUNTED: Final = re.compile(r"0{4,}\d*")


def maybe_id(held: Json, name: str) -> str | None:
    """Return an id, or "" if it is missing; None for a value that is no string."""
    identity = held.get(name) or ""
    return identity if isinstance(identity, str) else None


def hash_id(identity: str, chars: int = MAX_ID_CHARS) -> str:
    """Hash an id. The result depends on the id alone, so a call and its result keep equal ids."""
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:chars]


def shorten_id(identity: str) -> str:
    """Return an id of at most `MAX_ID_CHARS` characters. A longer one is hashed."""
    return identity if len(identity) <= MAX_ID_CHARS else hash_id(identity)


def shape_plain(identity: str) -> str:
    """Return an id without characters that some providers refuse, such as those in `functions.get:0`."""
    # Each such character becomes its code point, so that two different ids stay different.
    return shorten_id(_ODD.sub(lambda char: f"_{ord(char[0]):x}", identity))


def shape_any(identity: str) -> str:
    """Return an id for any provider. One in Kimi's form may be Kimi's own, without a mark, so it stays."""
    return shorten_id(identity) if _KIMI.fullmatch(identity) else shape_plain(identity)


def _shape_mistral(identity: str) -> str:
    return identity if _MISTRAL.fullmatch(identity) else hash_id(identity, 9)


def _shape_openai(identity: str) -> str:
    return identity if len(identity) <= _OPENAI_CHARS else hash_id(identity, _OPENAI_CHARS)


_ODD: Final = re.compile(r"[^a-zA-Z0-9_-]")
_KIMI: Final = re.compile(r"functions\.[\w.-]+:\d+")
_MISTRAL: Final = re.compile(r"[a-zA-Z0-9]{9}")
_OPENAI_CHARS: Final = 40
"""The longest id that OpenAI's chat completions take."""
SHAPES: Final[dict[History, Callable[[str], str]]] = {
    "any": shape_any,
    "mistral": _shape_mistral,
    "openai": _shape_openai,
}
"""Functions that change an id which a chat upstream would refuse, by the upstream's `history`."""


def may_repeat(identity: str, name: str) -> bool:
    """Return whether another reply may use the same id for another call; `name`: the called function."""
    rest = identity.replace(name, "-") if name else identity
    return not any(_COUNTED.fullmatch(run) is None for run in _RANDOM.findall(rest))


@dataclass(slots=True)
class ReplyIds:
    """Gives the calls of one message their ids."""

    _context: ReplyContext
    _given: set[str] = field(default_factory=set)
    _made: int = 0

    def give(self, identity: object, name: object) -> str:
        """Return the id that the caller gets for a call, given the provider's id, if it has one."""
        if not isinstance(identity, str) or not identity or identity in self._given:
            own_id = f"{CALL_PREFIX}{self._context.request_id}_{self._made}"
            self._made += 1
            return own_id
        self._given.add(identity)
        tag = self._context.provider_tag
        if not tag or _MARK in identity:
            return identity
        if len(identity) <= MAX_ID_CHARS and not may_repeat(identity, str(name or "")):
            return identity
        return f"{identity}{_MARK}{tag[4:-1]}-{hash_id(self._context.request_id, _HEX_CHARS)}"


_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MAX_NAME_CHARS: Final = 64
"""Characters of the longest name that every provider takes: OpenAI refuses longer ones."""


def _read_names(tools: object) -> Iterator[object]:
    """Yield the names of a request's tools, in any dialect."""
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            holders = (tool, tool.get("function"), tool.get("custom"))
            yield from (one.get("name") for one in holders if isinstance(one, dict))


def shape_name(name: str) -> str:
    """Return a tool's name in characters that all providers take."""
    return _ODD.sub("_", name)[:MAX_NAME_CHARS] or "_"


def shorten_name(name: str) -> str:
    """Return a tool's name of at most `MAX_NAME_CHARS`. The result depends on the name alone."""
    if len(name) <= MAX_NAME_CHARS:
        return name
    return f"{name[: MAX_NAME_CHARS - _HEX_CHARS - 1]}_{hash_id(name, _HEX_CHARS)}"


def read_long_names(tools: object) -> dict[str, str]:
    """Return the names of a request's tools that `shorten_name` shortens, keyed by the short name."""
    names = (name for name in _read_names(tools) if isinstance(name, str))
    return {shorten_name(name): name for name in names if len(name) > MAX_NAME_CHARS}


@dataclass(slots=True)
class HistoryIds:
    """Writes the ids and names of a conversation's calls, in order, for the provider of a tag."""

    _tag: str
    _tools: object
    """The tools of the request."""
    _shape: Callable[[str], str] = shape_plain
    answered: bool = False
    """A result or a message came since the latest call."""
    _used: set[str] = field(default_factory=set)
    """The ids written so far."""
    _turn: set[str] = field(default_factory=set)
    """The ids written for the latest turn."""
    _open: dict[str, list[str]] = field(default_factory=dict)
    """The ids written for calls of that turn without a result yet, by the caller's id."""
    _last: dict[str, str] = field(default_factory=dict)
    """The latest id written for each of the caller's ids."""

    def write_call(self, identity: str) -> str:
        """Write the id of a call. An id that is used again gets a number appended."""
        if self.answered:
            self.answered = False
            self._turn.clear()
            self._open.clear()
        found = _MARKED.fullmatch(identity)
        is_own = found is not None and bool(self._tag) and found[2] == self._tag[4:-1]
        # The provider made these ids itself, so it accepts that they repeat from turn to turn.
        own, taken = (found[1], self._turn) if found and is_own else (identity, self._used)
        own = own or NO_ID
        written = own if is_own else self._shape(own)
        number = 1
        while written in taken:
            number += 1
            written = self._shape(f"{own}-{number}")
        self._used.add(written)
        self._turn.add(written)
        self._open.setdefault(identity, []).append(written)
        self._last[identity] = written
        return written

    def write_name(self, name: str) -> str:
        """Write the name of a call. If providers may refuse it, it is changed, unless a tool has it."""
        if _NAME.fullmatch(name) or name in _read_names(self._tools):
            return name
        return shape_name(name)

    def write_result(self, identity: str) -> str:
        """Write the id of a result: the id written for the first call with this id that has no result yet."""
        self.answered = True
        if waiting := self._open.get(identity):
            return waiting.pop(0)
        return self._last.get(identity) or self._shape(identity or NO_ID)
