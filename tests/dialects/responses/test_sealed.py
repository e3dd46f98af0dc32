"""Sealed content goes back to the provider that made it, and to no other."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.responses.sealed import tag_provider, tag_sealed, untag_items
from gateway.errors import BadRequest
from tests.dialects.responses.kit import OTHER_TAG, TAG, Json


def reason(sealed: str | None, kind: str = "reasoning") -> Json:
    return {"type": kind, "id": "rs_1", "summary": [], "encrypted_content": sealed}


def test_a_tag_tells_providers_apart() -> None:
    assert tag_provider("a", "https://x") == tag_provider("a", "https://x")
    others = [tag_provider("b", "https://x"), tag_provider("a", "https://y")]
    assert len({tag_provider("a", "https://x"), *others}) == 3


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
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
    assert untag_items(items, TAG) == [reason("x"), reason(None), "odd"]


def test_a_conversation_summed_up_by_another_provider_is_refused() -> None:
    assert untag_items([reason(TAG + "x", "compaction")], TAG) == [reason("x", "compaction")]
    with pytest.raises(BadRequest) as caught:
        untag_items(["x", reason("x", "compaction")], TAG)
    assert caught.value.param == "input[1].encrypted_content"
