"""Earlier turns as chat upstreams want them back, and seals in which callers of other dialects carry them.

Gemini signs calls (`extra_content`), OpenRouter gives `reasoning_details`, DeepSeek and Kimi want their
`reasoning_content` again. A `StateCollector` seals the first two for the caller. On the way back, an
assistant's message has the seals after its calls' ids, or in a separate member, in which a translation
puts the seals that its caller sent (`wire.seals`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import is_not
from typing import Any, Final

from gateway.base.errors import UndeliverableReply
from gateway.dialects.chat.content import read_reasoning, write_ids
from gateway.dialects.wire.call_ids import SHAPES, HistoryIds
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_list, get_object, get_text
from gateway.dialects.wire.records import Json, Target
from gateway.dialects.wire.seals import join_seals, open_seals, seal, split_id

STATE: Final = "gateway_state"
"""The member of an assistant's message, or of a delta, that no upstream and no caller sees: an object
with `sealed`, and in messages with `reasoning`; a `State` once it is opened."""
FOREIGN_SIGNATURE: Final = "skip_thought_signature_validator"
"""Stands for the signature of a call that Gemini did not make (Google's documentation of them)."""
MAX_STATE_CHARS: Final = 8 << 20
"""Characters of what a reply's upstream wants back: the length of the largest event."""
NO_REASONING: Final = " "
"""Stands for the reasoning of a turn that has none: an empty one is refused, like none."""


@dataclass(slots=True)
class State:
    """The state of a turn that came back, opened for its upstream."""

    found: list[object]
    """The states that were sealed for the upstream, in order."""
    reasoning: str = ""
    """The text of its reasoning, whoever made it."""


def add_state(message: Json, sealed: list[str], reasoning: list[str]) -> None:
    """Add the seals that the caller sent to a message, which may be made of many turns."""
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
        # The inner translation has sealed it already, for its own provider.
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
            state = {"details": _merge_details(self._details), "calls": self._extras}
            self._seals.append(seal(state, self._tag))
            self._details, self._extras = [], {}
        sealed = join_seals(self._seals)
        self._seals.clear()
        return sealed

    def take_any(self) -> str:
        """Return the seals, or an empty one: SDKs drop reasoning that is not signed."""
        return self.take() or seal(None, self._tag)


def open_history(messages: list[Json], tag: str) -> list[Json]:
    """Open the seals of a conversation for another dialect's upstream, which writes the ids of calls.

    Mistral's thinking is left out.
    """
    opened = []
    for one in messages:
        is_plain = one.keys() <= _PLAIN and one["role"] not in _WITH_CALLS
        opened.append(one if is_plain else _drop_thinking(_open(one, tag)))
    return opened


def _open(message: Json, tag: str) -> Json:
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


def write_history(messages: list[Json], target: Target, tools: object) -> list[Json]:
    """Return a conversation as a chat upstream accepts it back."""
    if target.leading_system:
        messages = _lead(messages)
    takes = "reasoning_content" in target.takes
    # To summarise a conversation, agents send it without its tools.
    wants_reasoning = takes and (bool(tools) or any(one.get("tool_calls") for one in messages))
    ids: HistoryIds | None = None  # made for the first turn that may have calls
    written = []
    for one in messages:
        if one["role"] == "developer" and target.history != "openai":
            one = {**one, "role": "system"}  # noqa: PLW2901 - few vendors know OpenAI's newer name, and it takes both
        if one.keys() <= _PLAIN and one["role"] not in _WITH_CALLS:
            if ids is not None:
                ids.answered = True
            written.append(one)
            continue
        if ids is None:
            ids = HistoryIds(target.provider_tag, tools, SHAPES[target.history])
        opened = _open(one, target.provider_tag)
        shown = _write(opened, target, wants_reasoning=wants_reasoning)
        written.append(write_ids(shown, ids))
    return written


def _lead(messages: list[Json]) -> list[Json]:
    """Join all instructions into the first message: templates of some models take no other."""
    told = [one for one in messages if one["role"] in _INSTRUCTIONS]
    if len(told) < 2 and told == messages[: len(told)]:  # noqa: PLR2004 - none, or the first one alone
        return messages
    held = [one.get("content") or "" for one in told]
    content: object = "\n\n".join(map(str, filter(None, held)))
    if list in map(type, held):
        texts = (
            one if type(one) is list else [{"type": "text", "text": one}] for one in held if one
        )
        content = [part for parts in texts for part in parts]
    rest = [one for one in messages if one["role"] not in _INSTRUCTIONS]
    return [{"role": "system", "content": content}, *rest]


_INSTRUCTIONS: Final = frozenset({"developer", "system"})
_PLAIN: Final = frozenset({"content", "name", "role"})
"""Members of a message that goes back as it came, unless it is a turn of the model's own, or a result."""
_WITH_CALLS: Final = ("assistant", "tool")


def _write(message: Json, target: Target, *, wants_reasoning: bool) -> Json:
    state = get_state(message)
    if STATE in message:
        message = {name: message[name] for name in message if name != STATE}
    if message.get("role") == "assistant":
        return _write_assistant(message, state, target, wants_reasoning=wants_reasoning)
    if message.get("role") == "tool" and message.get("content") in (None, []):
        return {**message, "content": ""}  # a tool that found nothing
    return message


def _write_assistant(message: Json, state: State, target: Target, *, wants_reasoning: bool) -> Json:
    edited: Json = {}
    if target.history != "mistral":
        message = _drop_thinking(message)
    if target.history != "any":
        message = _drop_members(message)
    states = [one for one in state.found if isinstance(one, dict)]
    if details := _merge_details(one for held in states for one in get_list(held, "details")):
        edited["reasoning_details"] = details
    # Providers that require reasoning reject a tool-call turn without it, even a turn from another provider.
    if wants_reasoning and not message.get("reasoning_content"):
        edited["reasoning_content"] = read_reasoning(message) or state.reasoning or NO_REASONING
    calls = message.get("tool_calls")
    if message.get("content") == []:  # refused as an array that is empty
        edited["content"] = None if calls else ""
    if isinstance(calls, list):
        written = _write_calls(calls, states, target)
        if any(map(is_not, written, calls)):
            edited["tool_calls"] = written
    return {**message, **edited} if edited else message


def _drop_thinking(message: Json) -> Json:
    """Leave out the thinking in a content, of which only Mistral makes a part."""
    content = message.get("content")
    if type(content) is not list or message.get("role") != "assistant":
        return message
    kept = [one for one in content if not (isinstance(one, dict) and one.get("type") == "thinking")]
    return message if len(kept) == len(content) else {**message, "content": kept or ""}


def _drop_members(message: Json) -> Json:
    """Leave out members that strict vendors refuse: other vendors' members and nulls."""
    kept = {
        name: value
        for name, value in message.items()
        if name == "content" or (value is not None and name not in _GIVEN)
    }
    calls = kept.get("tool_calls")
    if isinstance(calls, list):
        kept["tool_calls"] = [
            {name: one[name] for name in one if name != "extra_content"}
            if type(one) is dict
            else one
            for one in calls
        ]
    return message if kept == message else kept


_GIVEN: Final = frozenset({"extra_content", "reasoning", "reasoning_content", "reasoning_details"})
"""Members that vendors add to an assistant's message, and other vendors refuse."""


def _write_calls(calls: list[object], states: list[Json], target: Target) -> list[object]:
    extras = {name: one for state in states for name, one in get_object(state, "calls").items()}
    written = []
    for number, call in enumerate(calls):
        if not isinstance(call, dict):
            written.append(call)
            continue
        edited: Json = {}
        identity = call.get("id")
        if isinstance(identity, str) and isinstance(extra := extras.get(identity), dict):
            edited["extra_content"] = extra
        if number == 0 and "thought_signature" in target.takes:
            extra = edited.get("extra_content") or get_object(call, "extra_content")
            google = get_object(extra, "google")
            if not google.get("thought_signature"):
                signed = {**google, "thought_signature": FOREIGN_SIGNATURE}
                edited["extra_content"] = {**extra, "google": signed}
        written.append({**call, **edited} if edited else call)
    return written


_FRAGMENTS: Final = ("text", "summary", "data", "signature")
"""Members of a detail that a stream gives piece by piece."""


def _merge_details(details: Iterable[object]) -> list[Json]:
    """Join the fragments of details: those of one kind, index and id, up to its signature."""
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
