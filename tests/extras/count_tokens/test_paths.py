"""Counts as callers ask for them, and as providers give them."""

from __future__ import annotations

import json

from gateway.extras.count_tokens.paths import edit_count


def test_a_count_passes_but_for_a_model_it_names() -> None:
    assert edit_count(b' {"input_tokens": 7}', "m") == b' {"input_tokens": 7}'
    assert edit_count(b'\xef\xbb\xbf{"input_tokens":7}', "m") == b'{"input_tokens":7}'
    assert edit_count(b'{"input_tokens":7,"cost":0.5}', "m") == b'{"input_tokens":7}'
    edited = json.loads(edit_count(b'{"input_tokens":7,"model":"theirs"}', "m"))
    assert edited == {"input_tokens": 7, "model": "m"}
