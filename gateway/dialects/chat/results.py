"""Results of tools as chat messages: text alone in the `tool` message, files in a user message behind."""

from __future__ import annotations

from typing import Final

from gateway.dialects.records import Json

BLOCK_SEPARATOR: Final = "\n\n"
"""The text between parts that become one string, as their words must not run together."""

FILES_NOTE: Final = "[The images and documents of this result are in the user message below.]"
"""The text in place of files that a tool message, which holds text alone, cannot hold."""


def make_result(identity: str, parts: list[Json], prefix: str = "") -> tuple[Json, list[Json]]:
    """Make the tool message, and the parts that have to go into a user message behind it.

    `prefix` stands in front of the text.
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
