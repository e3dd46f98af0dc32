"""Text completions: events keep a provider's form, in any slicing, and are metered. What is charged, and how they fail, is in `played.txt`."""

from __future__ import annotations

import json
from typing import Any, Final

from gateway.base.usage import Expected, UsageLimits
from gateway.dialects.wire.records import ReplyContext
from tests.dialects.chat.kit import dump
from tests.support.formats import SERVICES
from tests.support.replies import sse
from tests.support.rows import each_row
from tests.support.texts import HEAD, complete, make_choice, text_completion, text_events

COMPLETIONS: Final = SERVICES["completions"]

WORDS: Final = ("    return", " a", ' + "b"', "\n", "🎉")
DELTAS: Final = [{**HEAD, "choices": [{"index": 0, "delta": {"content": w}}]} for w in WORDS]
DONE: Final = b"data: [DONE]\n\n"


def make_context(**asked: Any) -> ReplyContext:
    body = dump(complete("ours", stream=True, **asked))
    request = COMPLETIONS.caller.parse_request(body)
    return ReplyContext(request, "req", Expected(5, UsageLimits(10**6, 10**6, 10**6)))


def run(events: list[Any], size: int, context: ReplyContext, *, done: bool = True) -> Any:
    data = b"".join(map(sse, events)) + (DONE if done else b"")
    pipeline = COMPLETIONS.open_stream(context)
    out = b"".join(pipeline.feed(data[at : at + size]) for at in range(0, len(data), size))
    out += pipeline.end()
    return pipeline, (out + pipeline.take_last() if pipeline.complete else out)


def rename(events: list[Any]) -> bytes:
    return b"".join(sse(one | {"model": "ours"}) for one in events) + DONE


@each_row("size", [1, 7, 100, 1 << 20])
def test_events_pass_under_our_name_and_the_usage_is_for_who_asks(size: int) -> None:
    events = text_events(*WORDS * 20)
    for asked, passed in (({"include_usage": True}, events), (None, events[:-1])):
        pipeline, out = run(events, size, make_context(stream_options=asked))
        assert out == rename(passed)
        metered = pipeline.measure()
        assert (metered.tokens.input, metered.tokens.output, metered.estimated) == (11, 7, False)


@each_row("size", [9, 1 << 20])
def test_text_is_counted_where_nothing_is_reported(size: int) -> None:
    text_bytes = len("".join(WORDS).encode())
    for events in (text_events(*WORDS * 9)[:-1], [*DELTAS * 9, _finish({"delta": {}})]):
        pipeline, out = run(events, size, make_context())
        assert out == rename(events)
        metered = pipeline.measure()
        assert (metered.tokens.input, metered.estimated) == (5, True)
        assert metered.tokens.output == -(-text_bytes * 9 // 4)


def _finish(choice: dict[str, Any]) -> dict[str, Any]:
    return {**HEAD, "choices": [{"index": 0, "finish_reason": "stop"} | choice]}


def test_a_stream_that_breaks_off_is_not_complete() -> None:
    """Every prompt has to have its end, or the terminal event has to come."""
    one_ends = [{**HEAD, "choices": [make_choice("x", "stop", index)]} for index in (0, 1)]
    none_ends = [{**HEAD, "choices": [make_choice("x", None, index)]} for index in (0, 1)]
    context = make_context(prompt=["a", "b"])
    for events, is_complete in ((none_ends, False), (one_ends[:1], False), (one_ends, True)):
        pipeline, _ = run(events, 50, context, done=False)
        assert pipeline.complete is is_complete


def test_a_reply_keeps_its_form() -> None:
    for reply in (text_completion(), _finish({"message": {"content": "Hi"}})):
        text = dump(reply | {"vendor": [1]})
        made = COMPLETIONS.read_reply(text, make_context())
        assert json.loads(made.body) == reply | {"vendor": [1], "model": "ours"}
        assert made.failure is None


def test_a_reply_in_place_of_a_stream_becomes_one() -> None:
    out = COMPLETIONS.replay_reply(dump(text_completion("a", "b")), make_context()).body
    assert out == sse(text_completion("a", "b")) + DONE
