"""The hot path of chat streams gives the same result as the slow one; `test_texts` has it for streams at random."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from gateway.dialects.chat.stream import ChatReader, ChatStream
from gateway.dialects.wire.templates import Template
from tests.dialects.chat.kit import (
    BEGIN,
    DONE,
    USAGE,
    Json,
    Played,
    choice,
    chunk,
    event,
    make_context,
    play,
    play_parsed,
    stop,
    text,
)
from tests.support.rows import each_row

MAX_FRUITLESS = 8


def check_same(body: bytes, *, n: int = 1) -> Played:
    """Play with templates, and with everything parsed."""
    hot = play(ChatStream(make_context(n=n)), [body])
    assert hot == play_parsed(ChatStream(make_context(n=n)), body)
    return hot


LEARNED = event(chunk(text("a"), usage=None)) * 3
"""Events from which a template is learned and which it has matched."""

DIFFERENT: dict[str, bytes] = {
    "role": event(chunk(choice({"content": "a", "role": "assistant"}), usage=None)),
    "role first": event(chunk(choice({"role": "assistant", "content": "a"}), usage=None)),
    "finish_reason": event(chunk(choice({"content": "a"}, "stop"), usage=None)),
    "error behind": event(chunk(text("a"), usage=None, error={"message": "m"})),
    "error before": event({"error": {"message": "m"}, **chunk(text("a"), usage=None)}),
    "usage": event(chunk(text("a"), usage=USAGE)),
    "another index": event(chunk(text("a", 1), usage=None)),
    "another id": event(chunk(text("a"), usage=None, id="other")),
    "another model": event(chunk(text("a"), usage=None, model="other")),
    "another object": event(chunk(text("a"), usage=None, object="error")),
    "two choices": event(chunk(text("a"), text("b", 1), usage=None)),
    "reasoning": event(chunk(choice({"reasoning": "a"}), usage=None)),
    "no text": event(chunk(text(""), usage=None)),
    "text null": event(chunk(choice({"content": None}), usage=None)),
    "escaped quotes": event(chunk(text('","finish_reason":"stop","x":"\\'), usage=None)),
    "a whole event in the text": event(chunk(text(BEGIN.decode()), usage=None)),
    "escapes": event(chunk(text('\\ " \n \t \x00 / é \U0001f600'), usage=None)),
    "ASCII escapes": event(chunk(text("QQ"), usage=None)).replace(b"QQ", rb"\u00e9\ud83d\ude00\/"),
    "lone surrogate": event(chunk(text("QQ"), usage=None)).replace(b"QQ", rb"\ud800"),
    "raw newline": event(chunk(text("QQ"), usage=None)).replace(b"QQ", b"a\nb"),
    "raw blank line": event(chunk(text("QQ"), usage=None)).replace(b"QQ", b"a\n\nb"),
    "raw NUL": event(chunk(text("QQ"), usage=None)).replace(b"QQ", b"\x00"),
    "invalid escape": event(chunk(text("QQ"), usage=None)).replace(b"QQ", rb"\x41"),
    "cut escape": event(chunk(text("QQ"), usage=None)).replace(b"QQ", rb"\u12"),
    "invalid UTF-8": event(chunk(text("QQ"), usage=None)).replace(b"QQ", b"\xff" * 9),
    "truncated": event(chunk(text("a"), usage=None))[:-9] + b"\n\n",
    "truncated in the text": event(chunk(text("QQ"), usage=None)).split(b"QQ")[0] + b"\n\n",
    "trailing bytes": event(chunk(text("a"), usage=None)).replace(b"\n\n", b"x\n\n"),
    "a second line": event(chunk(text("a"), usage=None)).replace(b"\n\n", b"\ndata: x\n\n"),
    "an error's name": b"event: error\n" + event(chunk(text("a"), usage=None)),
    "an id line": b"id: 1\n" + event(chunk(text("a"), usage=None)),
    "a comment": b": c\n" + event(chunk(text("a"), usage=None)),
    "CRLF": event(chunk(text("a"), usage=None)).replace(b"\n", b"\r\n"),
    "spaces": b"data: " + json.dumps(chunk(text("a"), usage=None)).encode() + b"\n\n",
    "a vendor's field": event(chunk(text("a"), usage=None, x=1)),
    "a key twice": event(chunk(text("a"), usage=None)).replace(
        b'"delta":{"content":"a"}', b'"delta":{"content":"a","content":"bcdefghi"}'
    ),
}


@each_row("other", DIFFERENT.values())
def test_an_event_unlike_the_learned_one_is_seen(other: bytes) -> None:
    """An event that differs outside the text, or whose text is none, is parsed."""
    check_same(BEGIN + LEARNED + other + LEARNED + event(chunk(stop())) + DONE)


def test_the_hot_path_is_taken() -> None:
    """Without its reader a stream cannot parse, and still passes events that fit a template."""
    stream = ChatStream(make_context())
    stream.feed(BEGIN + LEARNED)
    stream._reader = cast("ChatReader", None)
    passed = stream.feed(event(chunk(text('more "text"'), usage=None)))
    assert json.loads(passed[6:])["choices"] == [text('more "text"')]
    with pytest.raises(AttributeError):
        stream.feed(DIFFERENT["a vendor's field"])


def tools(*calls: Json) -> bytes:
    return event(chunk(choice({"tool_calls": list(calls)})))


def call(arguments: str, **fields: Any) -> Json:
    return {**fields, "function": {"arguments": arguments}}


def test_calls_without_index_are_counted_once() -> None:
    """Learning from an event must not count its call."""
    body = BEGIN + tools(call("{}", id="a")) + tools(call("{}", id="b")) + tools(call("{}", id="c"))
    played = check_same(body)
    assert [one["delta"]["tool_calls"][0]["index"] for one in played.choices[1:]] == [0, 1, 2]


def test_fragments_without_index_go_to_the_latest_call() -> None:
    """A template of the first call's fragments fits the second's, which has another index."""
    fragments = tools(call("1")) + tools(call("2"))
    played = check_same(
        BEGIN + tools(call("", id="a")) + fragments + tools(call("", id="b")) + fragments
    )
    assert [one["delta"]["tool_calls"][0]["index"] for one in played.choices[1:]] == [
        0, 0, 0, 1, 1, 1,
    ]  # fmt: skip


def test_a_fragment_without_index_follows_fragments_with_one() -> None:
    first = b"".join(tools(call("", index=n, id="x", type="function")) for n in (0, 1))
    known = b"".join(tools(call("1", index=n)) for n in (0, 1, 0, 1, 0))
    check_same(BEGIN + first + known + tools(call("2")))


def test_a_fragment_without_index_follows_one_whose_index_was_repaired() -> None:
    """A known id at another index is the same call; the fragments behind it belong to it."""
    fragments = [call("a", id="c"), *[call("b", index=1, id="c")] * 3, call("d")]
    check_same(BEGIN + b"".join(map(tools, fragments)) + DONE)


def test_a_usage_that_comes_again_is_the_last() -> None:
    usages = [USAGE | {"completion_tokens": n, "total_tokens": 9 + n} for n in (1, 2, 1)]
    body = BEGIN + b"".join(event(chunk(text("a"), usage=one)) for one in usages)
    assert check_same(body).tokens.output == 1


def test_what_is_said_beside_the_text_counts_each_time() -> None:
    spoken = event(chunk(choice({"content": "1234", "function_call": {"arguments": "5678"}})))
    assert check_same(BEGIN + spoken * 5).tokens.output == 10


def test_a_finished_choice_that_is_repeated_empty_is_dropped_on_both_ways() -> None:
    again = [text("a"), choice({}, "stop"), text("")]
    check_same(BEGIN + b"".join(event(chunk(one)) for one in again) + DONE, n=2)


def watch_calls(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """Return the positions in the buffer at which a method of templates is called from now on."""
    positions: list[int] = []
    really = getattr(Template, name)

    def watch(template: Template, buffer: bytes, position: int, out: list[bytes]) -> object:
        positions.append(position)
        return really(template, buffer, position, out)

    monkeypatch.setattr(Template, name, watch)
    return positions


@pytest.mark.parametrize("reads", [1, 3])
def test_events_that_take_turns_are_not_looked_at_together_again_and_again(
    monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    """Each such look is at all that is left of the read: one in vain is enough."""
    looks = watch_calls(monkeypatch, "pass_many")
    turns = event(chunk(text("a"), usage=None)) * 2 + event(chunk(text("a", 1), usage=None))
    stream = ChatStream(make_context(n=2))
    stream.feed(BEGIN + turns * 3)
    looks.clear()
    for _ in range(reads):
        assert stream.feed(turns * 50).count(b"data: ") == 150
    assert len(looks) == reads


def test_a_read_within_an_event_is_no_event() -> None:
    stream = ChatStream(make_context())
    stream.feed(BEGIN + LEARNED)
    said = event(chunk(text("a"), usage=None))
    assert stream.feed(b": ") == b""
    assert stream.feed(said) == b": " + said
    assert stream._text_bytes == len("aaa"), "a comment is no text"


@each_row("count", [1, 2])
def test_templates_are_learned_as_long_as_they_match(count: int) -> None:
    stream = ChatStream(make_context())
    said = event(chunk(text("a"), usage=None))
    stream.feed(BEGIN + said)
    stream.feed(said)
    stream._may_learn = 1
    stream.feed(said * count)
    assert stream._may_learn == MAX_FRUITLESS


def test_a_run_behind_another_is_looked_at_together_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasoning, then the answer, in one read."""
    thought = event(chunk(choice({"reasoning": "a"}), usage=None))
    said = event(chunk(text("a"), usage=None))
    stream = ChatStream(make_context())
    stream.feed(BEGIN + thought * 3 + said * 3)
    single = watch_calls(monkeypatch, "pass_run")
    stream.feed(thought * 40 + said * 40)
    assert single == [len(thought * 39), len(thought * 40 + said * 39)]
