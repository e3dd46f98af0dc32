"""The state that chat upstreams want back with a turn: sealed for callers of other dialects, and opened again.

Gemini signs calls (`extra_content`), OpenRouter gives `reasoning_details`: a `StateCollector` seals them for
the caller. On the way back, an assistant's message has the seals after its calls' ids, or in a separate
member, in which a translation puts the seals that its caller sent (`wire.seals`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import is_not
from typing import Any, Final

from gateway.base.errors import UndeliverableReply
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_list, get_object, get_text
from gateway.dialects.wire.records import Json
from gateway.dialects.wire.seals import join_seals, open_seals, seal, split_id

STATE: Final = "gateway_state"
"""The member of an assistant's message, or of a delta, that no upstream and no caller sees: an object
with `sealed`, and in messages with `reasoning`; a `State` once it is opened."""
MAX_STATE_CHARS: Final = 8 << 20
"""Characters of the state of one reply: the length of the largest event."""


@dataclass(slots=True)
class State:
    """The state of a turn that came back, opened for its upstream."""

    found: list[object]
    """The states that were sealed for the upstream, in order."""
    reasoning: str = ""
    """The text of the turn's reasoning, whichever provider made it."""


def add_state(message: Json, sealed: list[str], reasoning: list[str]) -> None:
    """Add seals and reasoning that the caller sent to a message, into which many turns may be joined."""
    held = message.setdefault(STATE, {"sealed": [], "reasoning": []})
    held["sealed"] += sealed
    held["reasoning"] += reasoning


class StateCollector:
    """Collects the state that the upstream wants back from a reply or its deltas."""

    __slots__ = ("_chars", "_details", "_extras", "_seals", "_tag")

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._seals: list[str] = []
        self._details: list[object] = []
        self._extras: Json = {}
        self._chars = 0

    def add(self, held: Json) -> None:
        """Read a message or a delta. Calls without an id cannot bring state back.

        Raises UndeliverableReply for more state than a caller could send again.
        """
        # In a composed pair, the inner translation has already sealed it for its provider.
        if STATE in held:
            self._seals.append(get_text(get_object(held, STATE), "sealed"))
        if details := get_list(held, "reasoning_details"):
            self._details += details
            self._count(details)
        for call in get_list(held, "tool_calls"):
            if isinstance(call, dict) and isinstance(call.get("extra_content"), dict):
                self._extras[get_text(call, "id")] = call["extra_content"]
                self._count(call["extra_content"])

    def _count(self, held: object) -> None:
        self._chars += len(dumps_lenient(held))
        if self._chars > MAX_STATE_CHARS:
            raise UndeliverableReply("The upstream's reasoning is too large.")

    def take(self) -> str:
        """Return the seals of the state collected since the last call; "" if there is none."""
        if self._details or self._extras:
            state = {"details": merge_details(self._details), "calls": self._extras}
            self._seals.append(seal(state, self._tag))
            self._details, self._extras = [], {}
        sealed = join_seals(self._seals)
        self._seals.clear()
        return sealed

    def take_any(self) -> str:
        """Return the seals, or else a seal of nothing: SDKs drop reasoning that is not signed."""
        return self.take() or seal(None, self._tag)


_FRAGMENTS: Final = ("text", "summary", "data", "signature")
"""Members of a detail that a stream sends in fragments."""


def merge_details(details: Iterable[object]) -> list[Json]:
    """Join the fragments of each detail: those with equal type, index and id, up to a signature."""
    whole: list[tuple[Json, dict[str, list[str]]]] = []
    places: dict[object, int] = {}
    for one in details:
        if not isinstance(one, dict):
            continue
        place = (str(one.get("type")), str(one.get("index")), str(one.get("id")))
        at = places.get(place) if isinstance(one.get("index"), int) else None
        # A signature is the end of a detail, so what follows at the same index is another one.
        if at is None or "signature" in whole[at][1]:
            at = places[place] = len(whole)
            whole.append(({}, {}))
        plain, fragments = whole[at]
        for name, value in one.items():
            if name in _FRAGMENTS and isinstance(value, str):
                fragments.setdefault(name, []).append(value)
            if value is not None:
                plain[name] = value
    return [
        {**plain, **{name: "".join(fragments[name]) for name in fragments}}
        for plain, fragments in whole
    ]


def open_state(message: Json, tag: str) -> Json:
    """Return a message whose calls have their own ids, with what was sealed for this tag under `STATE`."""
    if message.get("tool_call_id"):
        identity = str(message["tool_call_id"])
        own, sealed = split_id(identity)
        return {**message, "tool_call_id": own} if sealed else message
    held, calls = message.get(STATE), message.get("tool_calls")
    if held is None and not calls:
        return message
    carried = held if isinstance(held, dict) else {}
    found = open_seals(join_seals(_texts(carried, "sealed")), tag)
    edited = message
    if isinstance(calls, list):
        cut = [_cut_id(call, found, tag) for call in calls]
        if any(map(is_not, cut, calls)):
            edited = {**message, "tool_calls": cut}
    if held is None and not found:
        return edited
    reasoning = "\n\n".join(filter(None, _texts(carried, "reasoning")))
    return {**edited, STATE: State(found, reasoning)}


def _texts(held: Json, name: str) -> list[str]:
    return [one for one in get_list(held, name) if isinstance(one, str)]


def _cut_id(call: Any, found: list[Any], tag: str) -> Any:
    """Return a call with its own id; the states sealed after the id are added to `found`."""
    identity = call.get("id") if isinstance(call, dict) else None
    own, sealed = split_id(identity) if isinstance(identity, str) else ("", "")
    if not sealed:
        return call
    found += open_seals(sealed, tag)
    return {**call, "id": own}


def get_state(message: Json) -> State:
    """Return the state of a message that was opened."""
    state = message.get(STATE)
    return state if isinstance(state, State) else State([])


def read_state(message: Json, read: Callable[[object], Json | None]) -> list[Json]:
    """Return the blocks or items of a turn that an upstream of another dialect wants back."""
    found = (one for state in get_state(message).found if isinstance(state, list) for one in state)
    return [part for one in found if (part := read(one)) is not None]
