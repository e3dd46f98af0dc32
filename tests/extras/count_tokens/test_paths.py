"""Counts as callers ask for them, and as providers give them."""

from __future__ import annotations

import json

import pytest

from gateway.base.errors import UpstreamError
from gateway.extras.count_tokens.paths import edit_count
from tests.support.rows import each_row


def test_a_count_passes_but_for_a_model_it_names() -> None:
    assert edit_count(b' {"input_tokens": 7}', "m") == b' {"input_tokens": 7}'
    assert edit_count(b'\xef\xbb\xbf{"input_tokens":7}', "m") == b'{"input_tokens":7}'
    assert edit_count(b'{"input_tokens":7,"cost":0.5}', "m") == b'{"input_tokens":7}'
    edited = json.loads(edit_count(b'{"input_tokens":7,"model":"theirs"}', "m"))
    assert edited == {"input_tokens": 7, "model": "m"}


@each_row(
    "body", [b"", b"[]", b"{}", b'{"input_tokens":-1}', b'{"input_tokens":true}', b'{"input_tokens":"7"}']
)  # fmt: skip
def test_what_is_no_count_is_the_upstreams_fault(body: bytes) -> None:
    with pytest.raises(UpstreamError):
        edit_count(body, "m")
