"""Parts of chat requests and replies, replies and streams, written by all translations to chat.

Results of tools: text goes into the `tool` message, files into a user message after it.
Web search: chat requests it by options beside the tools. If the request is translated again (`is_pivot`),
the options also carry domains, a limit of uses and a choice of the search, which no chat provider takes.
Sources: chat's annotations, the pages that a text is based on, with places counted from its first character.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

from gateway.base.money import WEB_SEARCH
from gateway.base.usage import count_text
from gateway.dialects.chat.repair import ID_PREFIX
from gateway.dialects.chat.state import STATE
from gateway.dialects.chat.stream import DONE
from gateway.dialects.chat.tools import ARGUMENTS, ToolKind
from gateway.dialects.wire.billed import is_open, list_families
from gateway.dialects.wire.call_ids import ReplyIds
from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_list, get_object, get_text
from gateway.dialects.wire.pipelines import EventWriter
from gateway.dialects.wire.records import Json, ReplyContext, ReplyUsage, Target
from gateway.dialects.wire.seals import seal, seal_id

BLOCK_SEPARATOR: Final = "\n\n"
"""The text between parts that become one string, so that their words do not run together."""

FILES_NOTE: Final = "[The images and documents of this result are in the user message below.]"
"""The text that replaces files in a tool message, which can hold only text."""
ERROR_PREFIX: Final = "Error: "
"""The beginning of a failed tool's message: chat has no field for the failure."""


def make_result(identity: str, parts: list[Json], prefix: str = "") -> tuple[Json, list[Json]]:
    """Make the tool message, and the parts that have to go into a user message behind it.

    `prefix` is put before the text.
    """
    texts = [str(part["text"]) for part in parts if part["type"] == "text"]
    files = [part for part in parts if part["type"] != "text"]
    if files:
        texts.append(FILES_NOTE)
        files.insert(0, {"type": "text", "text": f"[From the result of tool call {identity}:]"})
    text = prefix + BLOCK_SEPARATOR.join(texts)
    return {"role": "tool", "tool_call_id": identity, "content": text}, files


def pack_parts(parts: list[Json]) -> str | list[Json]:
    """Make a lone text a plain string, which every chat upstream takes."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return str(parts[0]["text"])
    return parts


SEARCH_OPTIONS: Final = "web_search_options"
SEARCH_CHOICE: Final[Json] = {"type": WEB_SEARCH}
"""The `tool_choice` of the search."""
_DOMAINS: Final = ("allowed_domains", "blocked_domains")


def is_search(tool: Field, target: Target) -> bool:
    """Return whether another dialect's tool is a web search that the model has a price for."""
    return is_open(WEB_SEARCH, target) and list_families(tool.value) == [WEB_SEARCH]


def make_search(tool: Field, filters: Field, target: Target) -> Json:
    """Write the options of another dialect's search; `filters` has its domains.

    Raises BadRequest for lists of domains, which a chat provider would ignore.
    """
    copied = ("search_context_size", *(("max_uses",) if target.is_pivot else ()))
    made = {name: tool.get(name) for name in copied if tool.get(name) is not None}
    if (location := tool["user_location"]).value is not None:
        where = {name: said for name, said in location.read_object().items() if name != "type"}
        made["user_location"] = {"type": "approximate", "approximate": where}
    for name in _DOMAINS:
        if (domains := filters[name]).value:
            if not target.is_pivot:
                raise domains.refuse_field()
            made[name] = domains.value
    return made


def add_search(made: Json, options: Json | None, target: Target) -> Json:
    """Add a search to tools and their choice. Chat providers take a choice only of functions."""
    chosen = made.get("tool_choice")
    if options is not None and chosen != "none":
        made = {**made, SEARCH_OPTIONS: options}
    if not target.is_pivot and ("tools" not in made or chosen == SEARCH_CHOICE):
        made.pop("tool_choice", None)
    return made


def read_location(options: Field) -> Json:
    """Write the user's location of a search as the other dialects do."""
    location = options["user_location"]
    if location.value is None:
        return {}
    where = location["approximate"]
    members = {} if where.value is None else where.read_object()
    return {"user_location": {"type": "approximate", **members}}


def read_sources(message: Json) -> list[Json]:
    """Read the pages that a message or delta names; files are left out."""
    given = (one for one in get_list(message, "annotations") if isinstance(one, dict))
    return [source for one in given if (source := maybe_source(get_object(one, "url_citation")))]


def maybe_source(held: Json) -> Json | None:
    """Read a page; None for one without an address, or a place in the text."""
    match held:
        case {"start_index": int(start), "end_index": int(end), "url": str(url)}:
            page = {"url": url, "title": get_text(held, "title")}
            return {"start_index": start, "end_index": end, **page}
        case _:
            return None


def move_source(source: Json, chars: int) -> Json:
    """Move the place of a page by `chars`, but not before the text's beginning."""
    places = {key: max(source[key] + chars, 0) for key in ("start_index", "end_index")}
    return {**source, **places}


def make_annotation(source: Json) -> Json:
    return {"type": "url_citation", "url_citation": source}


NO_ARGUMENTS: Final = "{}"
"""The arguments of a call without any: callers read them as JSON."""


def uses_functions(body: Json) -> bool:
    """Return whether the caller uses `functions`, chat's form before tools, and expects them in replies."""
    return bool(body.get("functions")) and not body.get("tools")


def make_message(
    text: str,
    refusal: str | None,
    reasoning: str,
    calls: list[Json],
    *,
    functions: bool,
    **lists: list[Json],
) -> Json:
    """Write the message of a reply.

    `functions`: the caller knows no tools; `lists`: further members, left out where they are empty.
    """
    message: Json = {
        "role": "assistant",
        "content": None if calls and not text else text,
        "refusal": refusal or None,
    }
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls and functions:
        message["function_call"] = calls[0].get("function")
    elif calls:
        message["tool_calls"] = calls
    return message | {key: held for key, held in lists.items() if held}


def carry_state(message: Json, sealed: str, context: ReplyContext) -> None:
    """Put a seal into a message: in `STATE` for a translation, else after the id of the first call."""
    if context.is_pivot:
        message[STATE] = {"sealed": sealed}
    elif calls := message.get("tool_calls"):
        calls[0]["id"] = seal_id(calls[0]["id"], sealed)


def make_completion(message: Json, finish_reason: str, context: ReplyContext, usage: Json) -> Json:
    """Write a reply of one message."""
    return {
        "id": ID_PREFIX + context.request_id,
        "object": "chat.completion",
        "created": context.created,
        "model": context.request.model,
        "choices": [
            {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
        ],
        "usage": usage,
    }


@dataclass(slots=True)
class Call:
    """A call that the caller knows of."""

    number: int
    """Its number among the calls."""
    kind: ToolKind
    has_arguments: bool = False
    """Arguments have come."""


class ChoiceWriter(EventWriter):
    """The part of an `EventWriter` that writes the chunks of the one choice."""

    __slots__ = (
        "_chunk_end", "_content_chars", "_context", "_count", "_functions", "_head", "_ids", "_listed",
        "_state", "_wants_usage",
    )  # fmt: skip

    def __init__(self, context: ReplyContext) -> None:
        super().__init__()
        request = context.request
        head = {
            "id": ID_PREFIX + context.request_id,
            "object": "chat.completion.chunk",
            "created": context.created,
            "model": request.model,
        }
        self._context = context
        self._ids = ReplyIds(context)
        self._state: list[Json] = []
        """Blocks or items that the upstream wants back. The next call's id will carry them."""
        self._functions = uses_functions(request.body)
        self._wants_usage = request.wants_usage
        self._head = b"data: " + dumps_lenient(head)[:-1] + b',"choices":['
        self._chunk_end = b',"usage":null}\n\n' if request.wants_usage else b"}\n\n"
        self._count = 0
        """Calls so far."""
        self._content_chars = 0
        """Characters of `content` so far."""
        self._listed: Counter[str] = Counter()
        """Entries of `annotations` and `images` so far."""

    @property
    def delivered(self) -> bool:
        return self.text_bytes > 0 or self._count > 0

    def open(self, usage: ReplyUsage) -> None:  # noqa: ARG002 - chat tells the usage at the end
        self._write({"role": "assistant", "content": "", "refusal": None})

    def take_last(self) -> bytes:
        return DONE

    def _write_text(self, key: str, text: object) -> None:
        """Write a fragment of `content`, `reasoning_content` or `refusal`."""
        if isinstance(text, str) and text:
            self.text_bytes += count_text(text)
            self._content_chars += len(text) if key == "content" else 0
            self._write({key: text})

    def _write_listed(self, key: Literal["annotations", "images"], entry: Json) -> None:
        """Write an entry of a list, numbered: OpenAI's SDKs need that to join deltas."""
        self._write({key: [{"index": self._listed[key], **entry}]})
        self._listed[key] += 1

    def _begin_call(self, identity: object, name: object, kind: ToolKind) -> Call:
        """Write a call's first fragment."""
        call = Call(self._count, kind)
        self._count += 1
        identity = self._ids.give(identity, name)
        # Every client sends calls back with the next request, but may drop other members.
        if self._state:
            sealed = seal(self._state, self._context.provider_tag)
            identity, self._state = seal_id(identity, sealed), []
        self._write_call(call, {"id": identity, "type": kind}, name=name, text="")
        return call

    def _note_state(self, held: Json) -> None:
        """Note a state for the upstream. The next call's id carries it or, at a pivot, `STATE`."""
        if self._context.is_pivot:
            self._write({STATE: {"sealed": seal([held], self._context.provider_tag)}})
        else:
            self._state.append(held)

    def _write_arguments(self, call: Call, fragment: str) -> None:
        if fragment:
            call.has_arguments = True
            self.text_bytes += count_text(fragment)
            self._write_call(call, {}, text=fragment)

    def _write_call(self, call: Call, head: Json, *, text: str, **name: object) -> None:
        """Write a fragment of a call, with the `name` of its tool if that is the first one."""
        tool = {**name, ARGUMENTS[call.kind]: text}
        if not self._functions:
            self._write({"tool_calls": [{"index": call.number, **head, call.kind: tool}]})
        elif call.number == 0:
            self._write({"function_call": tool})

    def _write_end(self, finish_reason: str, usage: Json) -> None:
        """Write the last chunk of the choice, and the usage chunk if the caller asked for it."""
        self._write({}, finish_reason)
        if self._wants_usage:
            self.out += (self._head, b'],"usage":', dumps_lenient(usage), b"}\n\n")

    def _write(self, delta: Json, finish_reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        self.out += (self._head, dumps_lenient(choice), b"]", self._chunk_end)
