"""A chat completion as a response: its items, its ending and its usage, with every key of the schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from gateway.base.errors import UndeliverableReply
from gateway.dialects.chat.state import StateCollector
from gateway.dialects.chat.stream import check_finish, read_choice
from gateway.dialects.chat.writer import NO_ARGUMENTS
from gateway.dialects.translate.first_choice import Kind, read_call, read_contents
from gateway.dialects.wire.customs import read_input
from gateway.dialects.wire.fields import split_data_url
from gateway.dialects.wire.jsonbytes import get_object, get_text
from gateway.dialects.wire.records import Json, ReplyContext, ReplyUsage
from gateway.extras.responses.caller import ID_PREFIX
from gateway.extras.responses.compaction import asks_summary, make_summary
from gateway.extras.responses.over_chat_tools import ToolName, read_tool_names
from gateway.extras.responses.stream import make_usage

Status = Literal["in_progress", "completed", "incomplete"]

SUMMARY_PREFIX: Final = "cmp"

_UNCUT: Final = ("image_generation_call", "reasoning")
"""Types of items that have no status `incomplete`."""
_INCOMPLETE: Final = {
    "length": "max_output_tokens",
    "model_length": "max_output_tokens",
    "content_filter": "content_filter",
}
"""The reason why a response is incomplete, by chat's finish reason. Other finish reasons complete it."""


def translate_reply(reply: Json, context: ReplyContext, usage: ReplyUsage) -> Json:
    """Write a response from a chat completion."""
    choice, message = read_choice(reply, context)
    check_finish(choice.get("finish_reason"))
    reason = read_incomplete(choice)
    if asks_summary(context.request.body):
        items = []
        if reason is None:  # half a summary would pass for the whole conversation
            text = read_contents(message).text
            items.append(make_summary(make_item_id(SUMMARY_PREFIX, context, 0), text))
        return make_response(context, items, usage, reason)
    items = _read_items(message, context)
    if items and reason is not None and items[-1]["type"] not in _UNCUT:
        items[-1]["status"] = "incomplete"
    return make_response(context, items, usage, reason)


def read_incomplete(choice: Json) -> str | None:
    """Read the reason why a response is incomplete; None for one that is complete."""
    return _INCOMPLETE.get(get_text(choice, "finish_reason"))


def _read_items(message: Json, context: ReplyContext) -> list[Json]:
    """Write the items in the order the model made them."""
    contents, state = read_contents(message), StateCollector(context.provider_tag)
    state.add(message)
    sealed = state.take()
    items: list[Json] = []
    if contents.reasoning or sealed:
        parts = [make_part("reasoning", contents.reasoning)] if contents.reasoning else []
        identity = make_item_id("rs", context, 0)
        items.append(make_reasoning(identity, parts, sealed or state.take_any()))
    sources = map(make_source, contents.sources)
    parts = [make_part("text", contents.text, sources)] if contents.text else []
    if contents.refusal:
        parts.append(make_part("refusal", contents.refusal))
    if parts:
        items.append(make_message(make_item_id("msg", context, len(items)), parts, "completed"))
    for image in map(read_image, contents.media):
        items.append(make_image(make_item_id("ig", context, len(items)), image))
    tools = read_tool_names(context.request.body)
    for call in contents.calls:
        items.append(_read_call(call, len(items), tools, context))
    return items


def make_part(kind: Kind, text: str, sources: Iterable[Json] = ()) -> Json:
    if kind == "text":
        return {"type": "output_text", "text": text, "annotations": [*sources], "logprobs": []}
    if kind == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "summary_text", "text": text}


def make_source(source: Json) -> Json:
    """Make the annotation of a page that a text is based on. Chat has it one level deeper."""
    return {"type": "url_citation", **source}


def read_image(media: object) -> tuple[str, str]:
    """Read the format and the base64 of an image. Raises UndeliverableReply for other media or an address."""
    url = get_object(media, "image_url").get("url") if isinstance(media, dict) else None
    media_type, data = split_data_url(url) if isinstance(url, str) else ("", "")
    if not media_type.startswith("image/"):
        raise UndeliverableReply(
            "The model made audio or an image by address, which a response cannot hold."
        )
    return media_type.removeprefix("image/"), data


def make_image(identity: str, image: tuple[str, str]) -> Json:
    form, data = image
    item = {"id": identity, "type": "image_generation_call", "status": "completed"}
    return {**item, "result": data, "output_format": form}


def _read_call(call: object, index: int, tools: dict[str, ToolName], context: ReplyContext) -> Json:
    identity, flat, arguments = read_call(call)
    tool = tools.get(flat, ToolName(flat))
    item = make_call(tool, index, identity, context)
    if tool.is_custom:
        return item | {"input": read_input(arguments), "status": "completed"}
    arguments += complete_arguments(arguments)
    return item | {"arguments": arguments, "status": "completed"}


def complete_arguments(arguments: str) -> str:
    """Return the text to append so that arguments are JSON: "{}" if there are none, else ""."""
    return "" if arguments.strip() else NO_ARGUMENTS


def make_response(
    context: ReplyContext,
    output: Sequence[Json] = (),
    usage: ReplyUsage | None = None,
    reason: str | None = None,
) -> Json:
    """Make a response, in progress without `usage`; `reason` is why it is incomplete."""
    body = context.request.body
    ended: Status = "incomplete" if reason else "completed"
    return {
        "id": ID_PREFIX + context.request_id,
        "object": "response",
        "created_at": context.created,
        "status": "in_progress" if usage is None else ended,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": body.get("metadata") or {},
        "model": context.request.model,
        "output": output,
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": None,
        "reasoning": _tell_reasoning(body.get("reasoning"), context),
        "service_tier": None,
        "store": False,
        "temperature": _or_default(body.get("temperature")),
        "text": {"format": {"type": "text"}} | (body.get("text") or {}),
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": _or_default(body.get("top_p")),
        "truncation": "disabled",
        "usage": None if usage is None else make_usage(usage),
        "user": body.get("user"),
        **context.request.told,
    }


def _tell_reasoning(asked: Any, context: ReplyContext) -> Json:
    if not asked:
        return {"effort": None, "summary": None}
    return dict(asked) if context.effort_sent else {**asked, "effort": None}


def _or_default(given: object) -> object:
    """Return a sampling field as requested, or 1, the default of all of them."""
    return 1.0 if given is None else given


def make_item_id(prefix: str, context: ReplyContext, index: int) -> str:
    return f"{prefix}_{context.request_id}_{index}"


def make_reasoning(identity: str, parts: list[Json], sealed: str = "") -> Json:
    """Make a reasoning item. The reasoning that the upstream shows becomes its summary."""
    item = {"id": identity, "type": "reasoning", "summary": parts}
    return {**item, "encrypted_content": sealed or None}


def make_message(identity: str, parts: list[Json], status: Status) -> Json:
    return {
        "id": identity,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": parts,
    }


def make_call(tool: ToolName, index: int, call_id: str, context: ReplyContext) -> Json:
    """Make the head of a call: without status, and without its arguments or input."""
    prefix, kind = ("ctc", "custom_tool_call") if tool.is_custom else ("fc", "function_call")
    item: Json = {
        "id": make_item_id(prefix, context, index),
        "type": kind,
        "call_id": call_id,
        "name": tool.name,
    }
    return item | {"namespace": tool.namespace} if tool.namespace else item
