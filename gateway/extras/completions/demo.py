"""The embedded provider's answer: the words of the prompt, continued by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator

import orjson

from gateway.dialects.wire.records import Json
from gateway.upstream.demo import (
    count_tokens,
    cut,
    list_inputs,
    make_head,
    make_usage,
    write_stream,
)


def make_texts(body: Json) -> Iterator[bytes]:
    """Make the reply to a request to continue a prompt, or the chunks of its stream."""
    prompts, n = list_inputs(body["prompt"]), body.get("n") or 1
    texts = [cut(body, _show(prompt)) for prompt in prompts for _ in range(n)]
    head = {**make_head(body, "text_completion"), "id": f"cmpl-demo{time.time_ns():x}"}
    usage = make_usage(sum(map(count_tokens, prompts)), sum(len(tokens) for tokens, _ in texts))
    choices = [
        {"text": "".join(tokens), "index": index, "logprobs": None, "finish_reason": reason}
        for index, (tokens, reason) in enumerate(texts)
    ]
    if not body.get("stream"):
        yield orjson.dumps({**head, "choices": choices, "usage": usage})
        return
    pieces: list[Json] = []
    for choice, (tokens, _) in zip(choices, texts, strict=True):
        pieces += [{**choice, "text": token, "finish_reason": None} for token in tokens]
        pieces.append({**choice, "text": ""})
    chunks = [{**head, "choices": [piece]} for piece in pieces]
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**head, "choices": [], "usage": usage})
    yield from write_stream(chunks)


def _show(prompt: str | list[int]) -> str:
    return prompt if isinstance(prompt, str) else " ".join(map(str, prompt))
