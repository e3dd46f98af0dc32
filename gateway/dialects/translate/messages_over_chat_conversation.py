"""A messages conversation as chat messages, and its blocks as parts.

A turn may become several messages. Results of tools become `tool` messages, which come before all messages
of the user since the assistant's turn, because a chat upstream wants results right after the calls.

Pictures become data URLs, PDF documents become file parts, and text documents become text. Files that only
the vendor's servers can resolve are refused. The work of its servers in earlier turns becomes text.
`citations` are advice to the upstream and left out, and so is `cache_control` if the upstream takes none.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.dialects.chat import writer
from gateway.dialects.chat.state import STATE, add_state
from gateway.dialects.messages.caller import MessagesField
from gateway.dialects.messages.history import INLINE_TOOL, THINKING, shape_input
from gateway.dialects.translate.earlier import pair_calls, tell
from gateway.dialects.translate.pivot import DEFAULT_FILENAME, make_file, make_text
from gateway.dialects.wire.call_ids import shorten_name
from gateway.dialects.wire.fields import dump_request, is_link
from gateway.dialects.wire.jsonbytes import get_object, get_text
from gateway.dialects.wire.records import Json

BILLING_HEADER: Final = "x-anthropic-billing-header:"
"""The beginning of a system block that a coding agent adds for the vendor's own accounting."""
_CHANGES: Final = frozenset({"tool_addition", "tool_removal"})
"""Blocks that add or remove callable tools from their place on. They are left out: a chat upstream gets all
tools from the beginning."""


def translate_conversation(
    system: MessagesField, messages: MessagesField, *, links: bool
) -> list[Json]:
    """Write the chat messages of a conversation; see `_translate_content` for `links`.

    Raises BadRequest, naming the field.
    """
    out = _translate_system(system)
    said: list[Json] = []  # the user's own messages since the last turn of another role
    for message in messages.read_items():
        role = message["role"].read_string()
        if role == "user":
            results, user = _translate_user(message["content"], links=links)
            out += results
            said += user
            continue
        out += said
        said = []
        if role == "assistant":
            _append_assistant(out, _translate_assistant(message["content"]))
        # An instruction without texts changes tools or effort, which chat cannot do, so it is left out.
        elif texts := _read_texts(message["content"]):
            out.append({"role": "system", "content": writer.BLOCK_SEPARATOR.join(texts)})
    if not (out := out + said):
        raise messages.refuse("at least one message must have content that can be carried over.")
    return [message for _, message in pair_calls(out)]


def _translate_system(system: MessagesField) -> list[Json]:
    """Write one system message of all blocks: a string, or parts if a block has a cache mark."""
    if system.value is None:
        return []
    texts = _read_texts(system)
    if not isinstance(system.value, str):
        texts = [text for text in texts if not text.startswith(BILLING_HEADER)]
        if any(block.mark for block in system.read_items()):
            parts = _translate_content(system)
            kept = [part for part in parts if not part["text"].startswith(BILLING_HEADER)]
            return [{"role": "system", "content": kept}] if kept else []
    joined = writer.BLOCK_SEPARATOR.join(texts)
    return [{"role": "system", "content": joined}] if joined else []


def _translate_user(content: MessagesField, *, links: bool) -> tuple[list[Json], list[Json]]:
    """Write the tool messages of a user turn, and a user message of its other blocks, if any."""
    if isinstance(content.value, str):
        return [], [{"role": "user", "content": content.value}]
    results: list[Json] = []
    moved: list[Json] = []
    parts: list[Json] = []
    for block in content.read_items():
        if block.get("type") == "tool_result":
            result, files = _translate_tool_result(block, links=links)
            results.append(result)
            moved += files
        else:
            parts += _translate_block(block, links=links)
    parts = moved + parts  # files of results come first: the tool messages announce them
    if results and not parts:
        return results, []
    return results, [{"role": "user", "content": writer.pack_parts(parts)}]


def _translate_tool_result(block: MessagesField, *, links: bool) -> tuple[Json, list[Json]]:
    """Write the tool message, and the parts that have to go into a user message behind it."""
    identity = block["tool_use_id"].read_string()
    content = block["content"]
    parts = [] if content.value is None else _translate_content(content, links=links)
    prefix = writer.ERROR_PREFIX if block.get("is_error") is True else ""
    result, files = writer.make_result(identity, parts, prefix)
    if block.mark:
        result["content"] = [{"type": "text", "text": result["content"], **block.mark}]
    return result, files


def _translate_assistant(content: MessagesField) -> Json:
    """Write an assistant's message: all text as one string, since blocks only divide it, and the calls."""
    if isinstance(content.value, str):
        return {"role": "assistant", "content": content.value}
    flows = [""]
    reasoning = ""
    calls: list[Json] = []
    seals: list[str] = []
    for block in content.read_items():
        kind = block["type"].read_string()
        if kind == "text":
            flows[-1] += block["text"].read_string()
        elif kind == "tool_use":
            calls.append(_translate_tool_use(block))
        elif kind in THINKING:
            reasoning += get_text(block.value, "thinking")
            seals.append(get_text(block.value, "signature") or get_text(block.value, "data"))
        else:
            flows += [tell(kind, block.value), ""]
    text = writer.BLOCK_SEPARATOR.join(filter(None, flows))
    message: Json = {"role": "assistant", "content": text}
    if calls:  # OpenAI itself writes null, not an empty text, beside calls
        message |= {"content": text or None, "tool_calls": calls}
    if seals:
        add_state(message, seals, [reasoning])
    return message


def _translate_tool_use(block: MessagesField) -> Json:
    arguments = dump_request(shape_input(block.get("input"))).decode()
    name = shorten_name(block["name"].read_string())
    function = {"name": name, "arguments": arguments}
    return {"id": block["id"].read_string(), "type": "function", "function": function}


def _append_assistant(out: list[Json], message: Json) -> None:
    """Append a message; assistant turns in a row become one, so that results follow all calls."""
    last = out[-1] if out else {}
    # Work of a vendor's servers may leave no text, and a message with thinking alone would be refused.
    if not message["content"] and "tool_calls" not in message:
        return
    if last.get("role") != "assistant":
        out.append(message)
        return
    texts = filter(None, (last["content"], message["content"]))
    calls = [*last.get("tool_calls", ()), *message.get("tool_calls", ())]
    merged: Json = {"role": "assistant", "content": writer.BLOCK_SEPARATOR.join(texts)}
    if calls:
        merged |= {"content": merged["content"] or None, "tool_calls": calls}
    if STATE in last:
        merged[STATE] = last[STATE]
    if held := message.get(STATE):
        add_state(merged, held["sealed"], held["reasoning"])
    out[-1] = merged


def _translate_content(content: MessagesField, *, links: bool = False) -> list[Json]:
    """Write the parts of a string or an array of text, image and document blocks.

    With `links`, documents may be addresses. Chat providers take none, but a further translation may.
    """
    if isinstance(content.value, str):
        return [make_text(content.value)]
    return [part for block in content.read_items() for part in _translate_block(block, links=links)]


def _translate_block(block: MessagesField, *, links: bool) -> list[Json]:
    """Write the parts of one block. A document with a context becomes more than one part."""
    match block["type"].read_string():
        case "text":
            return [make_text(block["text"].read_string()) | block.mark]
        case "image":
            return [_translate_image(block)]
        case "document":
            return _translate_document(block, links=links)
        case "tool_reference":  # all tools are sent in full, so the name is enough
            name = shorten_name(block["tool_name"].read_string())
            return [make_text(f"[Tool found: {name}]")]
        case kind if _EARLIER.fullmatch(kind):
            return [make_text(said)] if (said := tell(kind, block.value)) else []
        case kind:
            raise block.refuse_type("a content block", kind)


def _read_texts(content: MessagesField) -> list[str]:
    """Read the strings of a content of text alone. Raises BadRequest for other blocks."""
    if isinstance(content.value, str):
        return [content.value] if content.value else []
    texts: list[str] = []
    for block in content.read_items() if content.value else ():
        kind = block.get("type")
        if kind in _CHANGES and get_text(get_object(block.value, "tool"), "type") != INLINE_TOOL:
            continue
        if kind != "text":
            raise block.refuse_type("here a content block", kind)
        texts.append(block["text"].read_string())
    return texts


def _translate_image(block: MessagesField) -> Json:
    source = block["source"]
    match source.get("type"):
        case "base64":
            url = _make_data_url(source)
        case "url":
            url = source["url"].read_string()
        case kind:
            raise source.refuse_type("an image source", kind)
    return {"type": "image_url", "image_url": {"url": url}, **block.mark}


def _translate_document(block: MessagesField, *, links: bool) -> list[Json]:
    """Write a document. Its title and context become a text before it if the part has no place for them."""
    source = block["source"]
    source_type = source.get("type")
    title, context = _read_optional(block["title"]), _read_optional(block["context"])
    match source_type:
        case "base64":
            if source.get("media_type") != "application/pdf":
                raise source["media_type"].refuse_field("a document that is neither text nor PDF")
            parts = [make_file(title or DEFAULT_FILENAME, _make_data_url(source))]
            title = ""
        case "url" if links and is_link(source["url"].read_string()):
            parts = [make_file(title, source["url"].value)]
            title = ""
        case "text":
            parts = [make_text(source["data"].read_string())]
        case "content":
            parts = _translate_content(source["content"])
        case kind:
            raise source.refuse_type("a document source", kind)
    about = "\n".join(filter(None, (title, context)))
    return [make_text(about), *parts] if about else parts


def _read_optional(field: MessagesField) -> str:
    return "" if field.value is None else field.read_string()


def _make_data_url(source: MessagesField) -> str:
    media_type, data = source["media_type"].read_string(), source["data"].read_string()
    return f"data:{media_type};base64,{data}"


_EARLIER: Final = re.compile(
    "(server|mcp)_tool_use|[a-z_]+_tool_result|compaction|fallback|search_result"
)
"""Matches types of blocks of a vendor's tools or a caller's search, which become text."""
