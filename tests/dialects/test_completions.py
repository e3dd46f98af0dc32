"""Text completions: events keep a provider's form, in any slicing, and are metered."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from gateway.dialects.exchanges import COMPLETIONS
from gateway.dialects.records import Inputs, ReplyContext, Target
from gateway.errors import BadRequest
from gateway.usage import Expected, UsageLimits
from tests.dialects.chat.kit import dump
from tests.support.replies import sse
from tests.support.rows import each_row
from tests.support.texts import HEAD, complete, make_choice, text_completion, text_events

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
    return pipeline, (out + pipeline.finish() if pipeline.complete else out)


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
    context = make_context(prompt=["a", "b"])
    for events, is_complete in ((one_ends[:1], False), (one_ends, True)):
        pipeline, _ = run(events, 50, context, done=False)
        assert pipeline.complete is is_complete


def test_a_reply_keeps_its_form() -> None:
    for reply in (text_completion(), _finish({"message": {"content": "Hi"}})):
        text = dump(reply | {"vendor": [1]})
        made = COMPLETIONS.read_reply(text, make_context())
        assert json.loads(made.body) == reply | {"vendor": [1], "model": "ours"}
        assert made.failure is None


def test_a_reply_in_place_of_a_stream_becomes_one() -> None:
    out = COMPLETIONS.replay_reply(dump(text_completion("a", "b")))
    assert out == sse(text_completion("a", "b")) + DONE


@each_row(
    ("asked", "inputs", "n"),
    [
        ({"prompt": "12345678"}, (1, 2), 1),
        ({"prompt": ""}, (1, 0), 1),
        ({"prompt": "1234", "suffix": "1234"}, (1, 2), 1),
        ({"prompt": ["1234", "1"], "n": 3}, (2, 2), 6),
        ({"prompt": [[1, 2], [3]], "best_of": 5, "n": 2}, (2, 3), 10),
        ({"prompt": [1, 2, 3], "echo": True}, (1, 3), 1),
    ],
)
def test_all_prompts_and_all_texts_are_expected(
    asked: dict[str, Any], inputs: tuple[int, int], n: int
) -> None:
    request = COMPLETIONS.caller.parse_request(dump(complete("m") | asked))
    assert (request.inputs, request.n) == (Inputs(*inputs), n)


@each_row(
    ("asked", "param", "code"),
    [
        ({"prompt": None}, "prompt", "missing_required_parameter"),
        ({"prompt": 1}, "prompt", "invalid_type"),
        ({"prompt": ["a", 1]}, "prompt[1]", "invalid_type"),
        ({"prompt": []}, "prompt", "empty_array"),
        ({"suffix": 1}, "suffix", "invalid_type"),
        ({"echo": "yes"}, "echo", "invalid_type"),
        ({"best_of": 21}, "best_of", "integer_above_max_value"),
        ({"stream": 1}, "stream", "invalid_type"),
    ],
)
def test_what_is_malformed_is_named(asked: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(BadRequest) as caught:
        COMPLETIONS.caller.parse_request(dump(complete("m") | asked))
    assert (caught.value.param, caught.value.code) == (param, code)


def test_the_usage_of_a_stream_is_asked_for() -> None:
    asked = COMPLETIONS.upstream.ask(complete("m", stream=True, best_of=2), Target("theirs"))
    assert asked == complete(
        "theirs", stream=True, best_of=2, stream_options={"include_usage": True}
    )
