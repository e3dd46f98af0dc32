"""Fields that multiply a service beyond what is counted: more outputs, larger ones, or more inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.dialects.wire.billed import Billed, asks

_INPUTS: Final = (
    # As TEI (`inputs`), Cohere (`texts`, `images`), Voyage and Jina (`queries`), NVIDIA (`passages`),
    # vLLM (`messages`, `prompt_embeds`, `text_1`), Ollama (`prompt`) and Google (`instances`) call them.
    *("content", "contents", "documents", "image", "image_url", "images", "input", "inputs"),
    *("instances", "messages", "passages", "prompt", "prompt_embeds", "prompts", "queries"),
    *("query", "ssml", "text", "text_1", "text_2", "texts", "video", "videos"),
)


def asks_more(value: object) -> bool:
    """Return whether a number asks for more than one. In a form it is a string."""
    return asks(value) and value not in (0, 1, "0", "1")


def make_rows(
    names: tuple[str, ...], advice: str = "Leave it out", asks: Callable[[object], bool] = asks
) -> dict[str, Billed]:
    """Make a row for each of the names."""
    return dict.fromkeys(names, Billed(asks, advice=advice))


def other_inputs(first: str, *more: str) -> dict[str, Billed]:
    """Make the rows of all inputs except these, which are counted. Errors advise to use the first."""
    return make_rows(
        tuple(name for name in _INPUTS if name not in (first, *more)), f"Use '{first}'"
    )
