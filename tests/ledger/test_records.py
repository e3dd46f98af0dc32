"""Records of the books: reasons for programs, and times that a clock set back spoils."""

from __future__ import annotations

from gateway.ledger.records import Conflict, NotFound, OtherRequest, Refused, StoredSecret


def test_a_refusal_has_one_word_for_programs() -> None:
    """Its own code, else that a field is wrong, else the word of its kind."""
    assert Refused("no").code == "refused"
    assert NotFound("no").code == "not_found"
    assert OtherRequest("no").code == Conflict("no").code == "conflict"
    assert Conflict("no", field="name").code == "invalid_field"
    assert Conflict("no", code="name_taken", field="name").code == "name_taken"


def test_digests_are_not_shown() -> None:
    assert "digest" not in repr(StoredSecret("id", b"digest", "last"))
