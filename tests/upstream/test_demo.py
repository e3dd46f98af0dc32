"""The embedded provider: what it answers."""

from __future__ import annotations

from gateway.upstream.demo import make_completion


def answer(text: str) -> str:
    body = {"model": "echo", "messages": [{"role": "user", "content": text}]}
    said = make_completion(body)["choices"][0]["message"]["content"]
    assert isinstance(said, str)
    return said


def test_an_answer_has_at_most_16_384_characters() -> None:
    assert answer("x" * 16_384) == "x" * 16_384
    assert answer("x" * 16_385) == "x" * 16_384
