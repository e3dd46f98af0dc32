"""Sealed content goes back to the provider that made it, and to no other."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.responses.history import SUMMARIES, tag_sealed, untag_items
from gateway.dialects.wire.seals import tag_provider
from gateway.errors import BadRequest
from tests.dialects.responses.kit import OTHER_TAG, TAG, Json
from tests.support.rows import each_row


def reason(sealed: str | None, kind: str = "reasoning") -> Json:
    return {"type": kind, "id": "rs_1", "summary": [], "encrypted_content": sealed}


def test_a_tag_tells_providers_apart() -> None:
    assert tag_provider("a", "https://x") == tag_provider("a", "https://x")
    others = [tag_provider("b", "https://x"), tag_provider("a", "https://y")]
    assert len({tag_provider("a", "https://x"), *others}) == 3


@each_row("separators", [(",", ":"), (", ", ": ")])
def test_what_leaves_is_tagged_and_comes_back_as_it_was(separators: tuple[str, str]) -> None:
    output = [reason("gAAA+/="), {"type": "message", "content": []}, reason("gBBB")]
    text = json.dumps({"output": output}, separators=separators).encode()
    tagged = json.loads(tag_sealed(text, TAG))["output"]
    assert [one.get("encrypted_content") for one in tagged] == [TAG + "gAAA+/=", None, TAG + "gBBB"]
    assert untag_items(tagged, TAG) == output


def test_what_is_in_a_text_is_no_sealed_content() -> None:
    said = json.dumps({"arguments": json.dumps(reason("gAAA")), "encrypted_content": None}).encode()
    assert tag_sealed(said, TAG) == said
    assert tag_sealed(b'{"encrypted_content":""}', TAG) == b'{"encrypted_content":""}'


def test_reasoning_of_another_provider_is_left_out() -> None:
    items = [reason(OTHER_TAG + "x"), reason("x"), reason(TAG + "x"), reason(None), "odd"]
    assert untag_items(items, TAG) == [reason("x"), "odd"]


def test_parts_of_another_provider_are_left_out() -> None:
    """As Codex sends what agents say to each other, sealed or in the clear."""

    def say(*sealed: str) -> Json:
        parts = [{"type": "encrypted_content", "encrypted_content": one} for one in sealed]
        return {"type": "agent_message", "content": parts}

    items = [say(TAG + "x", OTHER_TAG + "y", "Do it."), say(OTHER_TAG + "y"), say("Do it.")]
    assert untag_items(items, TAG) == [say("x", "Do it."), say("Do it.")]


@each_row("kind", sorted(SUMMARIES))
def test_a_conversation_summed_up_by_another_provider_is_refused(kind: str) -> None:
    assert untag_items([reason(TAG + "x", kind)], TAG) == [reason("x", kind)]
    for sealed in ("x", OTHER_TAG + "x"):
        with pytest.raises(BadRequest, match="Send the conversation itself") as caught:
            untag_items(["x", reason(sealed, kind)], TAG)
        assert caught.value.param == "input[1]"
