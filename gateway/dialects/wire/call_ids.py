"""Ids and names of tool calls, for all dialects: unique for callers, and as each provider takes them back.

Some providers count (`call_0` in each reply) or give no ids. Clients loop on an id that comes again, and
most providers refuse a conversation with one. So an id that may repeat leaves with the provider's tag
and a mark of the reply behind it, and goes back without them to that provider, which may depend on the
form of its ids (Kimi). To other providers it goes as the caller has it, in the form that they take.

Models make up names of tools (`browser.tabs.open`, or none), which clients answer with an error and send
back with every later request. Most providers refuse such names there.
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
"""The id of calls without one, which some providers give and clients send back."""
MAX_ID_CHARS: Final = 64
"""The longest id that OpenAI's Responses API and Claude at Bedrock take. Other vendors state no limit."""
_MARK: Final = "-gw2-"
_HEX_CHARS: Final = 8
"""Hex characters of a reply's mark, and behind a shortened name: enough to tell those of a conversation apart."""
_MARKED: Final = re.compile(rf"(.+){_MARK}([0-9a-f]{{8}})-[0-9a-f]{{8}}", re.DOTALL)
_RANDOM: Final = re.compile(r"(?=[A-Za-z]*\d)[A-Za-z0-9]{8,}")
"""Matches an id that does not repeat: ids that count have fewer characters, or no digits among them."""
_COUNTED: Final = re.compile(r"0{4,}\d*")


def maybe_id(held: Json, name: str) -> str | None:
    """Return an id, "" if there is none; None for what cannot be one."""
    identity = held.get(name) or ""
    return identity if isinstance(identity, str) else None


def hash_id(identity: str, chars: int = MAX_ID_CHARS) -> str:
    """Write another id, always the same for one: a call and its result keep equal ids without a memory."""
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:chars]


def shorten_id(identity: str) -> str:
    """Return an id that every provider takes by its length."""
    return identity if len(identity) <= MAX_ID_CHARS else hash_id(identity)


def shape_plain(identity: str) -> str:
    """Return an id in characters that every provider takes (`functions.get:0` has others)."""
    # Each character becomes its number, so that two ids stay two.
    return shorten_id(_ODD.sub(lambda char: f"_{ord(char[0]):x}", identity))


def shape_any(identity: str) -> str:
    """Return an id for a provider that may be Kimi, whose own ids a client may have without a mark."""
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
"""The form in which ids are sent that a chat upstream would refuse."""


def may_repeat(identity: str, name: str) -> bool:
    """Return whether another reply may have the same id for another call of the function."""
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
            made = f"{CALL_PREFIX}{self._context.request_id}_{self._made}"
            self._made += 1
            return made
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
    """Give the names of a request's tools, in any dialect."""
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            held = (tool, tool.get("function"), tool.get("custom"))
            yield from (one.get("name") for one in held if isinstance(one, dict))


def shape_name(name: str) -> str:
    """Return a tool's name in characters that all providers take."""
    return _ODD.sub("_", name)[:MAX_NAME_CHARS] or "_"


def shorten_name(name: str) -> str:
    """Return a tool's name that every provider takes by its length, always the same for one."""
    if len(name) <= MAX_NAME_CHARS:
        return name
    return f"{name[: MAX_NAME_CHARS - _HEX_CHARS - 1]}_{hash_id(name, _HEX_CHARS)}"


def read_long_names(tools: object) -> dict[str, str]:
    """Return the names of a request's tools that `shorten_name` shortens, by the short ones."""
    names = (name for name in _read_names(tools) if isinstance(name, str))
    return {shorten_name(name): name for name in names if len(name) > MAX_NAME_CHARS}


@dataclass(slots=True)
class HistoryIds:
    """Writes the ids of a conversation, in order, for the provider of a tag, and the names of calls."""

    _tag: str
    _tools: object
    """The request's."""
    _shape: Callable[[str], str] = shape_plain
    answered: bool = False
    """A result or a message came since the latest call."""
    _used: set[str] = field(default_factory=set)
    """The ids written so far."""
    _turn: set[str] = field(default_factory=set)
    """Ids of the latest turn."""
    _open: dict[str, list[str]] = field(default_factory=dict)
    """The ids written for the calls of that turn that wait for a result, by the caller's."""
    _last: dict[str, str] = field(default_factory=dict)
    """The id written last, by the caller's."""

    def write_call(self, identity: str) -> str:
        """Write the id of a call: a second use gets a number."""
        if self.answered:
            self.answered = False
            self._turn.clear()
            self._open.clear()
        found = _MARKED.fullmatch(identity)
        is_own = found is not None and bool(self._tag) and found[2] == self._tag[4:-1]
        # The provider's own ids may repeat from turn to turn, as it made them.
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
        """Write the name of a call, which the request's tools may not have."""
        if _NAME.fullmatch(name) or name in _read_names(self._tools):
            return name
        return shape_name(name)

    def write_result(self, identity: str) -> str:
        """Write the id of a result: that of the first call of its id that waits."""
        self.answered = True
        if waiting := self._open.get(identity):
            return waiting.pop(0)
        return self._last.get(identity) or self._shape(identity or NO_ID)
