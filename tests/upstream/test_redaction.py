"""Errors of a provider tell neither its key nor its own name of a model."""

from __future__ import annotations

from gateway.errors import BadRequest
from gateway.upstream.forwarder import redact, rename, take_out
from tests.support.rows import each_row


def test_a_key_is_taken_out_wherever_the_provider_echoes_it() -> None:
    error = BadRequest("Bad key sk-a.b in sk-a.b!", param="sk-a.b", code="sk-a.b")
    error.cause = error.provider_code = "sk-a.b"
    redact(error, ("sk-a.b",))
    assert error.message == "Bad key [redacted] in [redacted]!"
    assert {error.param, error.code, error.cause, error.provider_code} == {"[redacted]"}


@each_row("secrets", [("sk-a", "sk-a-b"), ("sk-a-b", "sk-a")])
def test_of_a_key_that_begins_with_another_nothing_is_left(secrets: tuple[str, ...]) -> None:
    error = BadRequest("Bad keys sk-a-b, sk-a.")
    redact(error, secrets)
    assert error.message == take_out("Bad keys sk-a-b, sk-a.", secrets)
    assert error.message == "Bad keys [redacted], [redacted]."


def test_without_a_key_nothing_is_taken_out() -> None:
    error = BadRequest("No key.")
    redact(error, ("",))
    assert error.message == "No key."


@each_row(
    ("said", "told"),
    [
        ("The model `dep` is busy.", "The model `ours` is busy."),
        ("dep: dep", "ours: ours"),
        ("depth of my-dep and dep-2, a/dep", "depth of my-dep and dep-2, a/dep"),
    ],
)
def test_a_model_is_renamed_but_not_inside_a_longer_word(said: str, told: str) -> None:
    error = BadRequest(said)
    rename(error, "dep", "ours")
    assert error.message == told


def test_a_name_is_no_pattern() -> None:
    error = BadRequest("The models a.b and axb.")
    rename(error, "a.b", r"\1")
    assert error.message == r"The models \1 and axb."
