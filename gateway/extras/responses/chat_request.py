"""A chat request as a Responses request: its conversation as input items, its tools, its settings.

Every field of the chat schema is in one of the tables below, so that none is lost silently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.base.money import WEB_SEARCH
from gateway.dialects.chat.state import read_state
from gateway.dialects.chat.writer import (
    BLOCK_SEPARATOR,
    NO_ARGUMENTS,
    SEARCH_CHOICE,
    SEARCH_OPTIONS,
    read_location,
)
from gateway.dialects.translate import pivot
from gateway.dialects.wire.fields import Field, is_link
from gateway.dialects.wire.records import CompletionRequest, Json, Target
from gateway.extras.responses.history import maybe_phase, maybe_reasoning

_CACHE_MARK: Final = "prompt_cache_breakpoint"
"""The field of a part that both dialects have."""
_INSTRUCTING: Final = frozenset({"system", "developer"})


def lift_instructions(items: list[Json], *, everywhere: bool) -> tuple[str, list[Json]]:
    """Take out the leading instructions, or all of them; return them as one text, and the other items.

    They stay if the conversation has nothing else, since the upstream refuses an empty one. From the
    first instruction with cache marks on they stay, too, as a text has no place for marks.
    """
    if everywhere:
        lifted = [item for item in items if item.get("role") in _INSTRUCTING]
        left = [item for item in items if item.get("role") not in _INSTRUCTING]
    else:
        bounds = (number for number, item in enumerate(items) if not _is_plain(item))
        count = next(bounds, len(items))
        lifted, left = items[:count], items[count:]
    if not left:
        return "", items
    return BLOCK_SEPARATOR.join(part["text"] for item in lifted for part in item["content"]), left


def _is_plain(item: Json) -> bool:
    """Return whether an item is an instruction whose parts have nothing but their text."""
    return item.get("role") in _INSTRUCTING and all(
        part.keys() == {"type", "text"} for part in item["content"]
    )


class _Items(pivot.Conversation):
    """The items of a conversation."""

    __slots__ = ("_custom_ids", "items")

    def __init__(self, messages: Field) -> None:
        """Write the messages as items. Raises BadRequest, naming what cannot be carried over."""
        self.items: list[Json] = []
        self._custom_ids: set[str] = set()
        """Calls of custom tools: their results have a type of their own."""
        super().__init__(messages)
        if not self.items:
            raise messages.refuse("This model's provider needs a message that is not empty.")

    def _add_instruction(self, message: Field) -> None:
        content = _translate_content(message["content"], pivot.TEXT_PARTS)
        self._add_message(message.get("role"), content)

    def _add_user(self, message: Field) -> None:
        self._add_message("user", _translate_content(message["content"], pivot.ALL_PARTS))

    def _add_assistant(self, message: Field) -> None:
        """Add the reasoning that the upstream encrypted, then the texts, then the calls."""
        begin = len(self.items)
        content = _translate_spoken(message["content"])
        content += _make_spoken("text", pivot.read_transcript(message))
        if (refusal := message["refusal"]).value is not None:
            content += _make_spoken("refusal", refusal.read_string())
        if content:
            self._add_message("assistant", content)
            # The messages of a reply have become one, whose end is that of the last.
            for phase in read_state(message.value, maybe_phase)[-1:]:
                self.items[-1].update(phase)
        if message.get("tool_calls"):
            for call in message["tool_calls"].read_items():
                self._add_call(call)
        if message.get("function_call") is not None:
            identity = f"function_{len(self.items)}"
            name = self._add_function(message["function_call"], identity)
            self._function_ids[name] = identity
        if len(self.items) > begin:  # reasoning alone would be refused
            self.items[begin:begin] = read_state(message.value, maybe_reasoning)

    def _add_result(self, identity: str, message: Field) -> None:
        output = message["content"].value
        if not output:
            output = ""
        elif not isinstance(output, str):
            output = _translate_content(message["content"], pivot.ALL_PARTS)
        # A result has to have the type that belongs to its call.
        kind = "custom_tool_call" if identity in self._custom_ids else "function_call"
        self.items.append({"type": f"{kind}_output", "call_id": identity, "output": output})

    def _add_message(self, role: str, content: list[Json]) -> None:
        self.items.append({"type": "message", "role": role, "content": content})

    def _add_call(self, call: Field) -> None:
        identity = pivot.read_id(call["id"])
        if call.get("type") != "custom":
            self._add_function(call["function"], identity)
            return
        tool = call["custom"]
        self._custom_ids.add(identity)
        held = {"name": tool["name"].read_text(), "input": tool["input"].read_string()}
        self.items.append({"type": "custom_tool_call", "call_id": identity, **held})

    def _add_function(self, function: Field, identity: str) -> str:
        """Add a call; return the function's name."""
        name, arguments = pivot.read_function_call(function)
        held = {"name": name, "arguments": arguments or NO_ARGUMENTS}
        self.items.append({"type": "function_call", "call_id": identity, **held})
        return name


def _translate_content(content: Field, kinds: frozenset[str]) -> list[Json]:
    """Write a string or parts as input parts."""
    if isinstance(content.value, str):
        return [{"type": "input_text", "text": content.value}]
    return [
        pivot.copy_mark(_CACHE_MARK, part, _TRANSLATORS[kind](part[kind]))
        for kind, part in pivot.read_parts(content, kinds)
    ]


def _translate_spoken(content: Field) -> list[Json]:
    """Write an assistant's content as output parts, empty text left out."""
    if content.value is None:
        return []
    if isinstance(content.value, str):
        return _make_spoken("text", content.value)
    said = pivot.read_spoken(content)
    return [made for kind, part in said for made in _make_spoken(kind, part[kind].read_string())]


def _make_spoken(kind: str, text: str) -> list[Json]:
    if not text:
        return []
    if kind == "refusal":
        return [{"type": "refusal", "refusal": text}]
    return [{"type": "output_text", "text": text, "annotations": []}]


def _translate_image(image: Field) -> Json:
    detail = image.get("detail") or "auto"  # the schema requires one
    return {"type": "input_image", "image_url": image["url"].read_text(), "detail": detail}


def _translate_file(file: Field) -> Json:
    """Write a document by its link or by its content."""
    data = file["file_data"].read_text()
    made = {"type": "input_file"}
    if isinstance(name := file.get("filename"), str):
        made["filename"] = name
    return {**made, "file_url" if is_link(data) else "file_data": data}


_TRANSLATORS: Final[dict[str, Callable[[Field], Json]]] = {
    "text": lambda text: {"type": "input_text", "text": text.read_string()},
    "image_url": _translate_image,
    "file": _translate_file,
}


SHARED: Final = frozenset(
    {
        *("metadata", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
        *("safety_identifier", "service_tier", "temperature", "top_p", "user"),
    }
)
"""Fields that both dialects have."""
CARRIED: Final = pivot.CARRIED | SHARED | {"verbosity"}
DROPPED: Final = pivot.DROPPED
REFUSED: Final = {**pivot.REFUSED, "stop": ([],)}
PASSED: Final = frozenset({"reasoning", "truncation"})
"""The upstream's own fields, unknown to chat, passed as they are."""
_KNOWN: Final = CARRIED | DROPPED | PASSED | pivot.VENDORS_ADVICE | {"top_k"}
_COPIED: Final = SHARED | PASSED - {"reasoning"}

MIN_OUTPUT_TOKENS: Final = 16
"""The least token limit that OpenAI accepts."""
_KINDS: Final = ("custom", "function")
"""Tools that the caller runs itself."""
_KNOWN_OF_SEARCH: Final = frozenset(
    {"allowed_domains", "max_uses", "search_context_size", "user_location"}
)
"""The upstream has no limit of uses."""


def translate_request(request: CompletionRequest, target: Target) -> Json:
    """Write the Responses request. Raises BadRequest, naming the field that cannot be carried over."""
    body = pivot.open_request(request, target, _KNOWN, REFUSED)
    text = _translate_text(body)
    items = _Items(body["messages"]).items
    made: Json = {"model": request.model}
    # The upstream wants the word JSON for a `json_object`, and looks for it among the items alone.
    needs_the_word = "format" in text and text["format"]["type"] == "json_object"
    if target.leading_system or not needs_the_word:
        instructions, items = lift_instructions(items, everywhere=target.leading_system)
        if instructions:
            made["instructions"] = instructions
    made["input"] = items
    made |= _translate_tools(body)
    if request.max_tokens is not None:  # a lower limit than the least would be refused
        made["max_output_tokens"] = max(request.max_tokens, MIN_OUTPUT_TOKENS)
    if reasoning := _translate_reasoning(body, target):
        made["reasoning"] = reasoning
    if text:
        made["text"] = text
    made |= {name: value for name, value in body.value.items() if name in _COPIED}
    if request.stream:
        made["stream"] = True
    return made


def _translate_text(body: Field) -> Json:
    """Write the requested form and verbosity of the reply."""
    made: Json = {}
    form = body["response_format"]
    if form.value is not None:
        made["format"] = _translate_format(form)
    if body["verbosity"].value is not None:
        made["verbosity"] = body["verbosity"].read_string()
    return made


def _translate_format(form: Field) -> Json:
    match form["type"].value:
        case "text" | "json_object" as kind:
            return {"type": kind}
        case "json_schema":
            held = form["json_schema"]
            made: Json = {"type": "json_schema", "name": held["name"].read_text()}
            for name in ("description", "strict"):
                if (value := held.get(name)) is not None:
                    made[name] = value
            return {**made, "schema": held["schema"].read_object()}
        case _:
            raise pivot.refuse_format(form)


def _translate_reasoning(body: Field, target: Target) -> Json:
    """Write `reasoning`: the upstream's own field, with the effort that chat has beside it."""
    own: Json = {} if body["reasoning"].value is None else body["reasoning"].read_object()
    effort = body["reasoning_effort"]
    if effort.value is None:
        return own
    if own.get("effort") is not None:
        raise body["reasoning"].refuse("It contradicts `reasoning_effort`: leave one out.")
    word = effort.read_string()
    return own if target.reasoning == "none" else {**own, "effort": word}


def _translate_tools(body: Field) -> Json:
    """Write `tools`, `tool_choice` and `parallel_tool_calls`.

    Raises BadRequest for tools that the caller does not run itself.
    """
    tools = pivot.read_tools(body, _read_tool, _read_function) + _read_search(body[SEARCH_OPTIONS])
    choice = pivot.find_choice(body)
    if not tools:
        pivot.check_no_choice(choice)
        return {}
    made: Json = {"tools": tools}
    if choice.value is not None:
        made["tool_choice"] = _read_choice(choice)
    parallel = pivot.read_parallel(body)
    return made if parallel is None else {**made, "parallel_tool_calls": parallel}


def _read_kind(tool: Field) -> str:
    kind: str = tool.read_object().get("type", "function")
    if kind not in _KINDS:
        raise tool["type"].refuse(f"This model's provider takes: {', '.join(_KINDS)}.")
    return kind


def _read_tool(tool: Field) -> Json:
    if _read_kind(tool) == "function":
        return _read_function(tool["function"])
    custom = tool["custom"]
    made: Json = {"type": "custom", **pivot.read_head(custom)}
    match custom.get("format"):
        case None:
            return made
        case {"type": "grammar", "grammar": dict(grammar)}:
            return {**made, "format": {"type": "grammar", **grammar}}
        case held:
            return {**made, "format": held}


def _read_function(function: Field) -> Json:
    """Write a function with `strict`, which the upstream takes for true where it is missing."""
    tool = pivot.read_function(function, "parameters")
    # A root that had to be shaped is not as strict as the upstream wants it.
    is_same = tool["parameters"] is function.get("parameters")
    return {"type": "function", **tool, "strict": is_same and function.get("strict") is True}


def _read_search(options: Field) -> list[Json]:
    if options.value is None:
        return []
    options.check_fields(_KNOWN_OF_SEARCH, {})
    made = {"type": WEB_SEARCH, **read_location(options)}
    if (size := options.get("search_context_size")) is not None:
        made["search_context_size"] = size
    if (domains := options.get("allowed_domains")) is not None:
        made["filters"] = {"allowed_domains": domains}
    return [made]


def _read_choice(choice: Field) -> object:
    match choice.value:
        case {"type": "web_search"}:  # the upstream's only word for it
            return {"type": "allowed_tools", "mode": "required", "tools": [SEARCH_CHOICE]}
        case "auto" | "required" | "none" as word:
            return word
        case {"type": "function" | "custom"}:
            return _read_named(choice)
        case {"name": str(name)} if choice.name == "function_call":
            return {"type": "function", "name": name}
        case {"type": "allowed_tools"}:
            allowed = choice["allowed_tools"]
            tools = [_read_named(tool) for tool in allowed["tools"].read_items()]
            return {"type": "allowed_tools", "mode": allowed["mode"].read_text(), "tools": tools}
        case _:
            raise choice.refuse(
                "This model's provider takes auto, required, none, the name of a function or of a "
                "custom tool, or allowed tools."
            )


def _read_named(tool: Field) -> Json:
    kind = _read_kind(tool)
    return {"type": kind, "name": tool[kind]["name"].read_text()}
