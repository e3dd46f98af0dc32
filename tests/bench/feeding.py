"""Measure the cost of a stream's pipeline: `python -m tests.bench.feeding`, half a minute.

100,000 content events go through `feed` in reads of 1, 10 and 100 events, for each pair of
dialects. The output is CPU microseconds per event, the best of a few rounds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from gateway.dialects.exchanges import EXCHANGES
from gateway.dialects.records import CompletionRequest, ReplyContext
from gateway.usage import Expected, UsageLimits

EVENTS: Final = 100_000
READS: Final = (1, 10, 100)
"""Events per read."""

_CONTEXT: Final = ReplyContext(
    CompletionRequest({}, "ours", True, True, 1, None, 0, 0),
    "request-1",
    Expected(10, UsageLimits(10**6, 10**6, 10**6)),
)
_CHUNK: Final = {
    "id": "chatcmpl-D8Z5oo6uDh67AD85p73ksdT1KxhE0",
    "object": "chat.completion.chunk",
    "created": 1770933892,
    "model": "gpt-4.1-nano-2025-04-14",
    "service_tier": "default",
    "system_fingerprint": "fp_de604bd877",
}
_RESPONSE: Final = {"id": "resp_1", "object": "response", "model": "theirs", "output": []}
_MESSAGE: Final = {"id": "msg_1", "type": "message", "role": "assistant", "model": "theirs"}


def make_chat_event(delta: Mapping[str, str]) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    return b"data: %b\n\n" % _dump(
        {**_CHUNK, "choices": [choice], "usage": None, "obfuscation": "Qup1BsQ3"}
    )


def make_messages_event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), _dump({"type": kind, **fields}))


def make_responses_delta(number: int, text: str) -> bytes:
    """Make an event that differs from the one before in its number and its padding, too."""
    return make_messages_event(
        "response.output_text.delta",
        sequence_number=number + 1,
        item_id="msg_68c0f1d2a3b48190",
        output_index=0,
        content_index=0,
        delta=text,
        logprobs=[],
        obfuscation="Qup1BsQ3PzW5x"[: number % 13],
    )


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


WORDS: Final = (" the", " gateway", ",", " and", " a", ' "quoted"', " word", ".")


def make_stream(dialect: str) -> tuple[bytes, list[bytes]]:
    """Make the beginning of a stream, and its content events."""
    texts = [WORDS[number % len(WORDS)] for number in range(EVENTS)]
    if dialect == "chat":
        events = {text: make_chat_event({"content": text}) for text in WORDS}
        return make_chat_event({"role": "assistant", "content": ""}), [events[one] for one in texts]
    if dialect == "responses":
        made = [make_responses_delta(at, texts[at]) for at in range(EVENTS)]
        return make_messages_event("response.created", response={**_RESPONSE}), made
    block = {"type": "text", "text": ""}
    usage = {"input_tokens": 9, "output_tokens": 1}
    message = {**_MESSAGE, "content": [], "usage": usage}
    begin = make_messages_event("message_start", message=message)
    begin += make_messages_event("content_block_start", index=0, content_block=block)
    events = {
        text: make_messages_event(
            "content_block_delta", index=0, delta={"type": "text_delta", "text": text}
        )
        for text in WORDS
    }
    return begin, [events[one] for one in texts]


def measure(caller: str, upstream: str, events_per_read: int) -> float:
    """Return the CPU microseconds per event."""
    begin, events = make_stream(upstream)
    reads = [
        b"".join(events[at : at + events_per_read]) for at in range(0, EVENTS, events_per_read)
    ]
    pipeline = EXCHANGES[caller][upstream].open_stream(_CONTEXT)
    pipeline.feed(begin)
    feed = pipeline.feed
    started = time.process_time()
    for data in reads:
        feed(data)
    seconds = time.process_time() - started
    assert pipeline.failure is None
    assert pipeline.delivered
    return seconds / EVENTS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{'caller over upstream':24}" + "".join(f"{n:>6} a read" for n in READS))
    for upstream in EXCHANGES:
        for caller in EXCHANGES:
            if upstream not in EXCHANGES[caller]:
                continue
            best = [min(measure(caller, upstream, n) for _ in range(rounds)) for n in READS]
            figures = "".join(f"{figure:13.2f}" for figure in best)
            print(f"{f'{caller} over {upstream}':24}{figures}")


if __name__ == "__main__":
    main()
