"""Recorded streams, and what they say by a reading of our own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parents[3] / "shared" / "streams" / "chat"
MESSAGES_FOLDER: Final = FOLDER.parent / "messages"
NAMES: Final = (
    "azure-model-router",
    "deepseek-reasoning",
    "mistral-text",
    "mistral-tool-call",
    "moonshot-text",
    "openai-text",
    "perplexity-text",
    "qwen-tool-call",
    "xai-text",
)
MESSAGES_NAMES: Final = ("text", "thinking", "tool-json", "tool-no-args", "usage-revised")


@dataclass(slots=True)
class ToolCall:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class ChoiceSaid:
    text: str = ""
    reasoning: str = ""
    tool_calls: dict[int, ToolCall] = field(default_factory=dict)
    finish_reason: str | None = None

    @property
    def output(self) -> str:
        """All that counts as output when nobody counted tokens."""
        arguments = "".join(call.arguments for call in self.tool_calls.values())
        return self.text + self.reasoning + arguments


@dataclass(slots=True)
class Said:
    """What a stream says in the end. `usage` is prompt, completion and total tokens."""

    choices: dict[int, ChoiceSaid] = field(default_factory=dict)
    usage: tuple[int, int, int] | None = None
    cached_tokens: int = 0

    @property
    def text(self) -> str:
        return self.choices[0].text if 0 in self.choices else ""


def load(name: str) -> list[dict[str, Any]]:
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def load_lines(name: str, folder: Path = FOLDER) -> list[bytes]:
    """The events as they were written, byte for byte."""
    lines = (folder / f"{name}.jsonl").read_bytes().splitlines()
    return [line for line in lines if line.strip()]


def accumulate(chunks: Iterable[dict[str, Any]]) -> Said:
    """Add up the chunks; fragments of a tool call without an index go by their position."""
    said = Said()
    for chunk in chunks:
        for choice in chunk["choices"]:
            _add(said.choices.setdefault(choice["index"], ChoiceSaid()), choice)
        if (usage := chunk.get("usage")) is not None:
            said.usage = _usage(usage)
            said.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return said


def _usage(usage: dict[str, Any]) -> tuple[int, int, int]:
    """With the output that some providers leave out of completion_tokens put back in."""
    prompt, total = usage["prompt_tokens"], usage["total_tokens"]
    return prompt, max(usage["completion_tokens"], total - prompt), total


def _add(said: ChoiceSaid, choice: dict[str, Any]) -> None:
    delta = choice["delta"]
    said.text += delta.get("content") or ""
    said.reasoning += delta.get("reasoning_content") or ""
    said.finish_reason = choice.get("finish_reason") or said.finish_reason
    for position, fragment in enumerate(delta.get("tool_calls") or []):
        call = said.tool_calls.setdefault(fragment.get("index", position), ToolCall())
        call.id = call.id or fragment.get("id") or ""
        function = fragment.get("function") or {}
        call.name = call.name or function.get("name") or ""
        call.arguments += function.get("arguments") or ""
