"""Sealed content goes back to the provider that made it, and to no other."""

from __future__ import annotations

import json

from gateway.dialects.wire.seals import tag_provider
from gateway.extras.responses.history import tag_sealed, untag_items
from tests.dialects.chat.kit import Json
from tests.extras.responses.kit import TAG
from tests.support.rows import each_row


def reason(sealed: str) -> Json:
    return {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": sealed}


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
