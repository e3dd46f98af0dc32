"""Chat as one side of a translation: code shared by translations from chat, and by those to chat.

Chat callers' requests may have older forms (functions beside tools, calls without ids), which all
translations from chat accept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from gateway.base.errors import BadRequest
from gateway.base.money import WEB_SEARCH
from gateway.dialects.chat.content import read_arguments
from gateway.dialects.chat.history import open_history
from gateway.dialects.chat.tools import nest_tools
from gateway.dialects.chat.writer import SEARCH_OPTIONS, uses_functions
from gateway.dialects.translate.earlier import pair_calls, tell
from gateway.dialects.wire.billed import is_open
from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.jsonbytes import get_object, get_text
from gateway.dialects.wire.records import CompletionRequest, Json, ReplyUsage, Target
from gateway.dialects.wire.usage import make_cache_details, make_chat_usage

CARRIED: Final = frozenset(
    {
        *("function_call", "functions", "max_completion_tokens", "max_tokens", "messages"),
        *("model", "parallel_tool_calls", "prompt_cache_key", "reasoning_effort"),
        *("response_format", "safety_identifier", "service_tier", "stream", "temperature"),
        *("tool_choice", "tools", "top_p", "user"),
    }
)
"""Fields of chat callers that all translations carry over."""
REFUSED: Final[Mapping[str, tuple[object, ...]]] = {
    **dict.fromkeys(("audio", "moderation", SEARCH_OPTIONS), ()),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "n": (1,),
    "top_logprobs": (0,),
}
"""Fields without a counterpart, each with the values that have no effect. Null never has one. Web search is
carried over if the model has a price for it."""
DROPPED: Final = frozenset(
    {*("frequency_penalty", "prediction", "presence_penalty", "seed", "store"), "stream_options"}
)
"""Fields that are left out. They change how a reply is sampled, worded, framed or stored, but not its subject
or its form, and many clients send them with every request."""
VENDORS_ADVICE: Final = frozenset({"min_p", "repetition_penalty"})
"""Further fields that are left out, which chat providers have added to the dialect."""

TEXT_PARTS: Final = frozenset({"text"})
SPOKEN_PARTS: Final = frozenset({"text", "refusal"})
"""The parts that an assistant message may hold; each has its text under the name of its type."""
ALL_PARTS: Final = frozenset({"text", "image_url", "file"})
"""The parts that a user message or a tool's result may hold."""

DEFAULT_FILENAME: Final = "document.pdf"
"""The name given to a document without one: chat upstreams require a name."""


def open_request(
    request: CompletionRequest,
    target: Target,
    known: frozenset[str],
    refused: Mapping[str, tuple[object, ...]],
) -> Field:
    """Return the body without nulls, its history opened. Raises BadRequest for unknown fields."""
    # In chat null means absent; other dialects refuse it in many fields.
    given = {name: value for name, value in nest_tools(request.body).items() if value is not None}
    body = Field({**given, "messages": open_history(given["messages"], target.provider_tag)})
    if is_open(WEB_SEARCH, target):
        known |= {SEARCH_OPTIONS}
    body.check_fields(known, refused)
    return body


def read_parts(content: Field, kinds: frozenset[str]) -> Iterator[tuple[str, Field]]:
    """Yield the parts of a content, each with its type. Raises BadRequest for types not in `kinds`."""
    for part in content.read_items():
        kind = part.get("type")
        if not isinstance(kind, str) or kind not in kinds:
            known = ", ".join(sorted(kinds))
            raise part["type"].refuse(f"This model's provider takes here: {known}.")
        yield kind, part


def read_spoken(content: Field) -> Iterator[tuple[str, Field]]:
    """Yield an earlier reply's parts with their types. Parts that only its vendor knows become text."""
    for part in content.read_items():
        kind = get_text(part.value, "type")
        if kind in SPOKEN_PARTS:
            yield kind, part
        elif said := tell(kind, part.value):
            yield "text", part.replace({"text": said})


def read_transcript(message: Field) -> str:
    """Read the transcript of an earlier reply's audio, if the message has no content."""
    audio = None if message.get("content") else message.get("audio")
    return get_text(audio, "transcript") if isinstance(audio, dict) else ""


def copy_mark(name: str, source: Field, made: Json) -> Json:
    """Copy the mark for the upstream's prompt cache (the field of this name), if there is one."""
    mark = source.get(name)
    return made if mark is None else {**made, name: mark}


class Conversation(ABC):
    """Takes the messages of a chat conversation one by one. Subclasses write them."""

    __slots__ = ("_function_ids",)

    def __init__(self, messages: Field) -> None:
        self._function_ids: dict[str, str] = {}
        """The ids made for calls without one that have no result yet, by the function's name."""
        for place, message in pair_calls(messages.value):
            self._add(Field(message, place, messages))

    def _add(self, message: Field) -> None:
        """Add a message, whose role the caller's dialect has checked."""
        match message.get("role"):
            case "system" | "developer":
                self._add_instruction(message)
            case "user":
                self._add_user(message)
            case "assistant":
                self._add_assistant(message)
            case "tool":
                self._add_result(read_id(message["tool_call_id"]), message)
            case _:
                identity = self._function_ids.pop(message["name"].read_text())
                self._add_result(identity, message)

    @abstractmethod
    def _add_instruction(self, message: Field) -> None:
        """Add a system or developer message."""

    @abstractmethod
    def _add_user(self, message: Field) -> None: ...

    @abstractmethod
    def _add_assistant(self, message: Field) -> None: ...

    @abstractmethod
    def _add_result(self, identity: str, message: Field) -> None:
        """Add the result of a call."""


def read_id(field: Field) -> str:
    """Read the id of a call, which some providers leave out."""
    return field.read_text() if field.value else ""


class Call(NamedTuple):
    """A call of an earlier turn."""

    identity: str | None
    """None for a `function_call`, the older form, whose result has the function's name instead."""
    is_custom: bool
    name: str
    text: str
    """The arguments, or the input of a custom tool."""


def read_calls(message: Field) -> Iterator[Call]:
    """Yield the calls of an assistant's message, in order."""
    for call in message["tool_calls"].read_items() if message.get("tool_calls") else ():
        identity = read_id(call["id"])
        if call.get("type") == "custom":
            tool = call["custom"]
            yield Call(identity, True, tool["name"].read_text(), tool["input"].read_string())
        else:
            yield Call(identity, False, *_read_function_call(call["function"]))
    if message.get("function_call") is not None:
        yield Call(None, False, *_read_function_call(message["function_call"]))


def _read_function_call(function: Field) -> tuple[str, str]:
    return function["name"].read_string(), read_text(function["arguments"])


def read_text(field: Field) -> str:
    """Read the arguments or the result of a call. It may be missing, or an object (Ollama)."""
    if field.value is None or isinstance(field.value, dict):
        return read_arguments(field.value)
    return field.read_string()


def read_tools(
    body: Field, read_tool: Callable[[Field], Json], read_function: Callable[[Field], Json]
) -> list[Json]:
    """Read `tools`, and `functions`, their older form.

    The first declaration of a name counts: OpenAI takes several, Anthropic refuses them.
    """
    tools: dict[str, Json] = {}
    for name, read in (("tools", read_tool), ("functions", read_function)):
        for one in body[name].read_items() if body.get(name) else ():
            tool = read(one)
            tools.setdefault(tool["name"], tool)
    return [*tools.values()]


def read_head(tool: Field) -> Json:
    """Read the name and the description of a tool."""
    head: Json = {"name": tool["name"].read_text()}
    description = tool.get("description")
    return head if description is None else {**head, "description": description}


def read_function(function: Field, parameters_key: str) -> Json:
    """Read name, description and parameters; no parameters are an empty object."""
    head, parameters = read_head(function), function["parameters"]
    given = {} if parameters.value is None else parameters.read_object()
    return {**head, parameters_key: open_root(given)}


def open_root(schema: Json) -> Json:
    """Return the schema of a tool as an object with `properties`, which OpenAI requires."""
    if schema.get("type") == "object" and type(schema.get("properties")) is dict:
        return schema
    return {**schema, "type": "object", "properties": get_object(schema, "properties")}


def find_choice(body: Field) -> Field:
    """Return `tool_choice`, or `function_call`, its older form."""
    choice = body["tool_choice"]
    return body["function_call"] if choice.value is None else choice


def check_no_choice(choice: Field) -> None:
    """Refuse a tool choice in a request without tools."""
    if choice.value not in (None, "auto", "none"):
        raise choice.refuse("There are no tools in the request to choose from.")


def refuse_choice(choice: Field) -> BadRequest:
    return choice.refuse(
        "This model's provider takes auto, required, none, the name of a function or of a custom "
        "tool, or allowed tools."
    )


def read_parallel(body: Field) -> bool | None:
    """Read `parallel_tool_calls`; the older functions were called one at a time."""
    parallel: bool | None = body.get("parallel_tool_calls")
    if parallel is not None and not isinstance(parallel, bool):
        raise body["parallel_tool_calls"].wrong_type("a boolean")
    return False if uses_functions(body.value) else parallel


def refuse_format(form: Field) -> BadRequest:
    return form["type"].refuse("This model's provider takes text, json_object or json_schema.")


def make_usage(usage: ReplyUsage, reasoning_key: str) -> Json:
    """Write the usage object for the caller: exactly the charged tokens.

    `reasoning_key`: the upstream's name for the reasoning tokens in the details.
    """
    made = make_chat_usage(usage.tokens)
    if usage.estimated:
        return made
    reasoning = get_object(usage.reported or {}, "output_tokens_details").get(reasoning_key)
    return {
        **made,
        "prompt_tokens_details": make_cache_details(usage.tokens),
        "completion_tokens_details": {
            "reasoning_tokens": reasoning if isinstance(reasoning, int) else 0
        },
    }


def make_text(text: str) -> Json:
    return {"type": "text", "text": text}


def make_file(name: str, data: str) -> Json:
    file = {"filename": name} if name else {}
    return {"type": "file", "file": {**file, "file_data": data}}
