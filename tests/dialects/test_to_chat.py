"""Chat replies and streams to callers of other dialects: what both translations must do alike.

What is peculiar to a dialect is tested in the folder of its translation. Slicings and cuts of whole
streams are tested in `test_provider_streams`.
"""

from __future__ import annotations

import itertools
import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.base import Pipeline
from gateway.dialects.exchanges import EXCHANGES
from gateway.dialects.records import Reply
from gateway.errors import UndeliverableReply, UpstreamError
from gateway.money import Tokens
from tests.dialects.chat.kit import (
    DONE,
    INPUT_ESTIMATE,
    Json,
    Played,
    choice,
    chunk,
    dump,
    each_byte,
    event,
    events,
    play,
    random_slices,
    role,
    stop,
    text,
)
from tests.dialects.messages_over_chat import kit as messages
from tests.dialects.messages_over_chat.kit import (
    AZURE,
    INTERLEAVED,
    SEQUENTIAL,
    USAGE,
    USED,
    begin,
    call,
    completion,
    fragment,
    stream,
)
from tests.dialects.responses_over_chat import kit as responses
from tests.support.fuzz import fuzz
from tests.support.rows import each_row

KITS: Final[Any] = {"messages": messages, "responses": responses}
each_caller = each_row("caller", KITS)
HM: Final = choice({"reasoning_content": "hm"})
THOUGHT: Final = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
PARTS: Final = [THOUGHT, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "reference"}]  # fmt: skip
SAID_HM: Final = ("reasoning", "hm")
SAID_A: Final = ("text", "a")
F0: Final[Any] = ("call", "c0", "f0", {})
F1: Final[Any] = ("call", "c1", "f1", {})
BOTH: Final = [("call", "c0", "f0", {"a": 1}), ("call", "c1", "f1", {"b": 2})]
LAST_USAGE: Final = {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 20}
CACHED: Final = {**USAGE, "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1}}


def open_stream(caller: str) -> Pipeline:
    return EXCHANGES[caller]["chat"].open_stream(KITS[caller].make_context())


def hear(caller: str, data: bytes) -> Played:
    return play(open_stream(caller), [data])


def read_whole(caller: str, played: Played) -> Json:
    """Return the reply that a stream adds up to; it must be complete and keep all rules."""
    if caller == "responses":
        return responses.read_response(played)
    return messages.read_message(played).model_dump()


def read_reply(caller: str, reply: Json) -> Reply:
    return EXCHANGES[caller]["chat"].read_reply(b"\n" + dump(reply), KITS[caller].make_context())


def list_facts(reply: Json) -> list[Any]:
    """List what a reply of either dialect says, in order; ids that the gateway made are `made`."""
    facts: list[Any] = []
    for one in reply.get("output") or reply.get("content") or []:
        match one:
            case {"type": "thinking", "thinking": said} | {"summary": [{"text": said}]}:
                facts.append(("reasoning", said))
            case {"type": "text", "text": said}:
                facts.append(("text", said))
            case {"type": "message", "content": parts}:
                facts.append(("text", "".join(part.get("text", part.get("refusal")) for part in parts)))  # fmt: skip
            case {"type": "tool_use", "id": identity, "name": name, "input": given}:
                facts.append(("call", identity, name, given))
            case _:
                given = json.loads(one["arguments"])
                facts.append(("call", one["call_id"], one["name"], given))
    return [
        (kind, "made", *rest) if kind == "call" and "request-1" in first else (kind, first, *rest)
        for kind, first, *rest in facts
    ]


def read_tokens(reply: Json) -> Tokens:
    """Return the tokens that a reply of either dialect tells."""
    usage = reply["usage"]
    if details := usage.get("input_tokens_details"):
        cached, written = details["cached_tokens"], details["cache_write_tokens"]
        fresh = usage["input_tokens"] - cached - written
        return Tokens(fresh, cached, written, usage["output_tokens"])
    cached, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
    return Tokens(usage["input_tokens"], cached, written, usage["output_tokens"])


@each_caller
@each_row(
    ("choices", "facts"),
    [
        ([HM, text("a"), HM, text("b"), begin(0, "{}"), text("c")],
         [SAID_HM, SAID_A, SAID_HM, ("text", "b"), F0, ("text", "c")]),
        ([choice({"reasoning": "hm", "content": ""}), text("a")], [SAID_HM, SAID_A]),
        ([choice({"reasoning_content": "hm", "content": ""}), text("a")], [SAID_HM, SAID_A]),
        ([choice({"content": PARTS[:2]})], [SAID_HM, SAID_A]),
        ([text("a"), choice({"refusal": "N"}), choice({"refusal": "o."})], [("text", "aNo.")]),
        ([text("a"), text("other", index=1)], [SAID_A]),
        (SEQUENTIAL, BOTH),
        (INTERLEAVED, BOTH),
        # Text between the fragments of a call.
        ([begin(0, '{"a"'), text("x"), fragment(0, ":1}")], [BOTH[0], ("text", "x")]),
        # No arguments at all, null, empty or blank ones.
        *([[begin(0), *given, begin(1)], [F0, F1]]
          for given in ([], [fragment(0, None)], [fragment(0, "")], [fragment(0, " \n")], [fragment(0, "{}")])),
        # Qwen repeats the id as an empty string.
        ([begin(0, "{"), fragment(0, "}", id="", type="function")], [F0]),
        # The name comes late.
        ([fragment(0, '{"a"', id="c0"), fragment(0, ":1}", name="f0")], BOTH[:1]),
        # No ids.
        ([fragment(0, "{}", name="f"), fragment(1, "{}", name="g")],
         [("call", "made", "f", {}), ("call", "made", "g", {})]),
        # No index: Mistral.
        ([choice({"tool_calls": [{"id": "c0", "function": {"name": "f0", "arguments": "{}"}}]})], [F0]),
        # All at index 0, told apart by id: Gemini.
        ([begin(0, '{"a":1}'), fragment(0, '{"b":2}', id="c1", name="f1")], BOTH),
        # The id and name again with every fragment.
        ([begin(0, '{"a"'), begin(0, ":1}")], BOTH[:1]),
        # An index that counts content blocks: Anthropic's own chat endpoint.
        ([begin(1, "{}"), begin(2, "{}")], [F1, ("call", "c2", "f2", {})]),
        # Arguments as an object: Ollama's native shape.
        ([choice({"tool_calls": [{"index": 0, "id": "c0",
                                  "function": {"name": "f0", "arguments": {"a": 1}}}]})], BOTH[:1]),
        # Space behind a call that is over.
        ([begin(0, "{}"), begin(1, "{}"), choice({}, "tool_calls"), fragment(0, "\n")], [F0, F1]),
    ],
)  # fmt: skip
def test_what_a_stream_says(caller: str, choices: list[Json], facts: list[Any]) -> None:
    played = hear(caller, stream(*choices, finish="tool_calls"))
    assert list_facts(read_whole(caller, played)) == facts
    assert (played.tokens, played.estimated) == (USED, False)


@each_caller
@each_row(
    ("message", "facts"),
    [
        ({"content": "a"}, [SAID_A]),
        ({"content": ""}, []),
        ({"content": None, "tool_calls": None}, []),
        ({}, []),
        ({"content": "a", "reasoning_content": "hm"}, [SAID_HM, SAID_A]),
        ({"content": "a", "reasoning": "hm", "reasoning_content": "hm"}, [SAID_HM, SAID_A]),
        ({"content": "a", "reasoning": "hm", "reasoning_content": None}, [SAID_HM, SAID_A]),
        ({"content": PARTS}, [SAID_HM, ("text", "ab")]),
        ({"content": PARTS, "reasoning_content": "hm"}, [SAID_HM, ("text", "ab")]),
        ({"content": "a", "refusal": "no"}, [("text", "ano")]),
        ({"content": "a", "reasoning": "hm", "tool_calls": [call("c0", "f0", '{"a":1}'), call("c1", "f1", "")]},
         [SAID_HM, SAID_A, BOTH[0], F1]),
        ({"tool_calls": [call("c0", "f0", None)]}, [F0]),
        ({"tool_calls": [call("c0", "f0", {"a": 1})]}, BOTH[:1]),
        ({"tool_calls": [call(None), call("")]}, [("call", "made", "f", {})] * 2),
    ],
)  # fmt: skip
def test_what_a_reply_says(caller: str, message: Json, facts: list[Any]) -> None:
    """Also where it comes to a request for a stream."""
    given = completion(message)
    reply = read_reply(caller, given)
    assert list_facts(KITS[caller].check_reply(reply)) == facts
    assert (reply.metered.tokens, reply.metered.estimated) == (USED, False)
    played = hear(caller, EXCHANGES[caller]["chat"].replay_reply(dump(given)))
    assert list_facts(read_whole(caller, played)) == facts


@each_caller
@each_row(
    ("chunks", "tokens"),
    [
        # Its own chunk; with the finish reason; in every chunk (the last counts); output left out.
        ([chunk(stop()), chunk(usage=USAGE)], USED),
        ([chunk(stop(), usage=USAGE)], USED),
        ([chunk(text("b"), usage=USAGE), chunk(stop(), usage=LAST_USAGE)], Tokens(7, 0, 0, 13)),
        ([chunk(stop(), usage=USAGE), chunk(usage=LAST_USAGE)], Tokens(7, 0, 0, 13)),
        ([chunk(stop(), usage=USAGE), chunk(usage=None)], USED),
        ([chunk(stop()), chunk(usage=CACHED)], Tokens(2, 2, 1, 3)),
    ],
)
def test_usage_told_is_the_usage_charged(caller: str, chunks: list[Json], tokens: Tokens) -> None:
    played = hear(caller, events(chunk(role()), chunk(text("a")), *chunks) + DONE)
    assert (played.tokens, played.estimated) == (tokens, False)
    assert read_tokens(read_whole(caller, played)) == tokens
    reply = read_reply(caller, completion({"content": "a"}, usage=chunks[-1].get("usage") or USAGE))
    assert read_tokens(json.loads(reply.body)) == reply.metered.tokens


@each_caller
@each_row(
    ("usage", "prompt"),
    [
        (None, INPUT_ESTIMATE),
        ({"prompt_tokens": -1}, INPUT_ESTIMATE),
        ({**USAGE, "prompt_tokens": 10**9}, INPUT_ESTIMATE),
        ({**USAGE, "total_tokens": 10**9}, 5),
    ],
)
def test_what_a_usage_cannot_say_is_estimated_and_told(
    caller: str, usage: Json | None, prompt: int
) -> None:
    tokens = Tokens(prompt, output=3)  # 12 bytes
    said = {"content": "abc", "reasoning": "ä", "tool_calls": [call(arguments='{"x":1}')]}
    reply = read_reply(caller, completion(said, usage=usage))
    assert (reply.metered.tokens, reply.metered.estimated) == (tokens, True)
    assert read_tokens(json.loads(reply.body)) == tokens
    choices = (choice({"reasoning": "ä"}), text("abc"), begin(0, '{"x":1}'))
    played = hear(caller, stream(*choices, usage=usage))
    assert (played.tokens, played.estimated) == (tokens, True)
    assert read_tokens(read_whole(caller, played)) == tokens


PLAIN: Final = stream(text("a"))


@each_caller
@each_row(
    "data",
    [
        b"\xef\xbb\xbf" + PLAIN,
        PLAIN.replace(b"\n", b"\r\n"),
        PLAIN.replace(b"\n", b"\r"),
        PLAIN.replace(b"data: ", b"data:"),
        PLAIN.replace(b"}\n", b"} \n"),
        PLAIN.replace(b"data: {", b"data: {\ndata: "),
        PLAIN.replace(b"data: ", b"id: 1\nretry: 5\nevent: x\ndata: "),
        b"retry: 1\n\nevent: ping\n\n" + PLAIN,
        PLAIN.removesuffix(b"\n"),  # [DONE] with its line
        PLAIN.removesuffix(b"\n\n"),
        PLAIN.removesuffix(DONE),
        PLAIN.removesuffix(b"\n\n" + DONE),
        PLAIN.replace(DONE, b"data: [DONE] \n\n"),
        PLAIN + event(chunk(text("late"))),
        event(AZURE) + PLAIN,
        PLAIN.replace(b'"object":"chat.completion.chunk",', b""),
    ],
)
def test_whatever_the_framing_the_reply_is_the_same(caller: str, data: bytes) -> None:
    for pieces in ([data], each_byte(data)):
        played = play(open_stream(caller), pieces)
        assert list_facts(read_whole(caller, played)) == [SAID_A]
        assert played.tokens == USED


@each_caller
def test_comments_and_lone_surrogates_pass(caller: str) -> None:
    assert open_stream(caller).feed(b": busy\n\n") == b": busy\n\n"
    assert hear(caller, b": busy\n\n" + PLAIN).out.startswith(b": busy\n\nevent: ")
    halves = [event(chunk(text("HERE"))).replace(b"HERE", half) for half in (b"\\ud83d", b"\\ude00")]  # fmt: skip
    out = hear(caller, event(chunk(role())) + b"".join(halves) + event(chunk(stop())) + DONE).out
    assert b'"\\ud83d"' in out
    assert b'"\\ude00"' in out


PARTIAL: Final = events(chunk(role()), chunk(text("a")))
OVER: Final = choice({}, "tool_calls")


@each_caller
@each_row(
    ("data", "words"),
    [
        (event({"error": {"message": "said upstream"}}), "said upstream"),
        (b'event: error\ndata: {"message":"said upstream"}\n\n', "said upstream"),
        (event({"object": "error", "message": "said upstream"}), "said upstream"),
        (event({"error": {}, "object": "error"}), "error"),
        (b"data: <html>\n\n", "not JSON"),
        (b"data: [1]\n\n", "not JSON"),
        (event(chunk(choice({}, "error"))), "error"),
        (event(chunk(fragment(0, "{}"), choice({}, "stop"))), "naming"),
        (events(chunk(begin(0, "{}")), chunk(OVER), chunk(fragment(0, "x"))), "complete"),
    ],
)
def test_failures(caller: str, data: bytes, words: str) -> None:
    played = hear(caller, PARTIAL + data + DONE)
    assert not played.complete
    assert words in (played.failure or "")
    KITS[caller].check_events(messages.read_events(played.out), complete=False)


@each_caller
@each_row("data", [DONE, b": hello\n\n" + DONE, event(AZURE) + DONE])
def test_end_before_the_beginning_is_a_failure(caller: str, data: bytes) -> None:
    assert hear(caller, data).failure == "The upstream's stream ended before it began."


@each_caller
@each_row(
    "message",
    [{"tool_calls": [one]} for one in ("f", {}, call(name=""), call(name=7))] + [{"content": "a"}],
)
def test_a_reply_that_cannot_be_passed_on_is_charged_and_not_to_be_tried_again(
    caller: str, message: Json
) -> None:
    finish = None if "content" in message else "stop"  # one without a finish reason is cut short
    reply = read_reply(caller, completion(message, finish))
    assert isinstance(reply.failure, UndeliverableReply)
    assert not reply.failure.should_retry
    assert reply.metered.tokens.output > 0


@each_caller
@each_row(
    ("reply", "words"),
    [
        ({"choices": [{"index": 0, "finish_reason": "stop"}]}, "no message"),
        (completion({"content": "a"}, "error"), "with an error"),
    ],
)
def test_what_is_no_completion_is_the_upstreams_fault(caller: str, reply: Json, words: str) -> None:
    with pytest.raises(UpstreamError, match=words):
        read_reply(caller, reply)


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
objects = st.dictionaries(words, words | st.integers(-9, 9) | st.none(), max_size=3)


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[Json], list[Any]]:
    """Mix text, reasoning and calls of a stream at random; return the choices and the calls."""
    given = [("call", f"c{at}", f"f{at}", draw(objects)) for at in range(draw(st.integers(0, 4)))]
    queues: list[list[Json]] = []
    for position, (*_, value) in enumerate(given):
        written = json.dumps(value, ensure_ascii=draw(st.booleans()))
        cuts = sorted(draw(st.sets(st.integers(0, len(written)), max_size=4)))
        pieces = [written[a:b] for a, b in itertools.pairwise([0, *cuts, len(written)])]
        queues.append([begin(position), *(fragment(position, piece) for piece in pieces)])
    queues += (
        [choice({key: said}) for said in draw(st.lists(words, max_size=4))]
        for key in ("content", "reasoning_content")
    )
    order = draw(st.permutations([at for at, queue in enumerate(queues) for _ in queue]))
    first_seen = dict.fromkeys(at for at in order if at < len(given))
    return [queues[at].pop(0) for at in order], [given[at] for at in first_seen]


@each_caller
def test_any_mixture_keeps_text_reasoning_and_calls(caller: str) -> None:
    @fuzz(150)
    @given(scripts(), st.randoms(use_true_random=False))
    def mix(script: tuple[list[Json], list[Any]], dice: Any) -> None:
        choices, calls = script
        played = play(open_stream(caller), random_slices(stream(*choices), dice))
        facts = list_facts(read_whole(caller, played))
        for kind, key in (("text", "content"), ("reasoning", "reasoning_content")):
            said = "".join(one["delta"].get(key, "") for one in choices)
            assert "".join(fact[1] for fact in facts if fact[0] == kind) == said
        assert [fact for fact in facts if fact[0] == "call"] == calls
        assert played.tokens == USED

    mix()
