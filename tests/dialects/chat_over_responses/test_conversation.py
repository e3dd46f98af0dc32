"""Random responses as chat streams: nothing is lost. `requests` has the mapping of requests."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.chat.over_responses_reply import translate_reply
from tests.dialects.chat.kit import check_stream, make_dice, play, random_slices
from tests.dialects.chat_over_messages.kit import make_context
from tests.dialects.chat_over_responses.kit import (
    STARTED,
    end,
    frame,
    make_usage,
    open_stream,
    write_items,
)
from tests.dialects.chat_over_responses.test_stream import gather
from tests.support.fuzz import fuzz

Json = dict[str, Any]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
arguments = st.dictionaries(texts, st.integers() | texts | st.lists(texts), max_size=3)
refusals = st.builds(lambda text: {"type": "refusal", "refusal": text}, texts.filter(bool))


said_parts = st.lists(
    st.builds(lambda text: {"type": "output_text", "text": text}, texts) | refusals, max_size=3
)
summaries = st.lists(
    st.builds(lambda text: {"type": "summary_text", "text": text}, texts), max_size=3
)
items = st.one_of(
    st.builds(lambda parts: {"type": "message", "content": parts}, said_parts),
    st.builds(lambda parts: {"type": "reasoning", "summary": parts}, summaries),
    st.builds(
        lambda identity, name, held: {
            "type": "function_call",
            "call_id": identity,
            "name": name,
            "arguments": json.dumps(held),
        },
        names,
        names,
        arguments,
    ),
    st.builds(
        lambda identity, name, held: {
            "type": "custom_tool_call",
            "call_id": identity,
            "name": name,
            "input": held,
        },
        names,
        names,
        texts,
    ),
)
details = st.sampled_from(
    [None, {"reason": "max_output_tokens"}, {"reason": "content_filter"}, {"reason": "new"}]
)


@fuzz(100)
@given(st.lists(items, max_size=5), st.sampled_from(["completed", "incomplete"]), details)
def test_a_stream_says_what_the_whole_reply_says_in_any_slicing(
    output: list[Json], status: str, detail: Json | None
) -> None:
    reply = {"status": status, "output": output, "incomplete_details": detail}
    (choice,) = translate_reply(reply, make_context(), make_usage(None))["choices"]
    body = frame(*STARTED, *write_items(*output), end(status, {"input_tokens": 1, "output_tokens": 2}, incomplete_details=detail))  # fmt: skip
    whole = play(open_stream(), [body])
    check_stream(whole.chunks, usage=False)
    keys, calls, finish = gather(whole)
    message = choice["message"]
    assert keys == {key: message.get(key) or "" for key in keys}
    assert calls == [
        [call["id"], *call[call["type"]].values()] for call in message.get("tool_calls", [])
    ]
    assert finish == choice["finish_reason"]
    for _ in range(3):
        assert play(open_stream(), random_slices(body, make_dice())) == whole
