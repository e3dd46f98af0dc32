"""Records of the books: reasons for programs, and times that a clock set back spoils."""

from __future__ import annotations

from dataclasses import replace

from gateway.ledger import CallView, Conflict, NotFound, OtherRequest, Refused, StoredSecret
from gateway.money import Tokens


def test_a_refusal_has_one_word_for_programs() -> None:
    """Its own code, else that a field is wrong, else the word of its kind."""
    assert Refused("no").code == "refused"
    assert NotFound("no").code == "not_found"
    assert OtherRequest("no").code == Conflict("no").code == "conflict"
    assert Conflict("no", field="name").code == "invalid_field"
    assert Conflict("no", code="name_taken", field="name").code == "name_taken"


def test_a_call_lasts_from_its_begin_to_its_end() -> None:
    call = CallView(
        "req_1", 100, None, "m", "p", "k", "", "", "pending", "pending", None, False,
        Tokens(), 0, False, None,
    )  # fmt: skip
    assert call.total_ms is None
    assert replace(call, ended_ms=130).total_ms == 30
    assert replace(call, ended_ms=90).total_ms == 0


def test_digests_are_not_shown() -> None:
    assert "digest" not in repr(StoredSecret("id", b"digest", "last"))
