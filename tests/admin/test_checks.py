"""The checks that several verbs share, each at its limit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.admin.checks import MAX_MOMENT_MS, require_amount, require_expiry, require_text
from gateway.ledger.records import Refused
from gateway.money import MAX_AMOUNT_NANO
from tests.support.rows import each_row


def refuse(check: Callable[[], None]) -> tuple[str | None, str]:
    with pytest.raises(Refused) as refused:
        check()
    return refused.value.field, str(refused.value)


@each_row("text", ["a", "a" * 10, "a b", "Größe 🎉"])
def test_a_printable_text_passes(text: str) -> None:
    require_text("the name", text, 10)


@each_row("text", ["", "a" * 11, " a", "a ", "a\nb", "a\tb", "\x1b[2J", "a\u202eb", "\u200b"])
def test_a_text_that_could_deceive_is_refused_by_its_field(text: str) -> None:
    field, message = refuse(lambda: require_text("the name", text, 10, "name"))
    assert field == "name"
    assert message.startswith("the name m")


def test_an_amount_beyond_the_limit_is_a_typing_error() -> None:
    for sign in (1, -1):
        require_amount(sign * MAX_AMOUNT_NANO)
        field, _ = refuse(lambda: require_amount(sign * (MAX_AMOUNT_NANO + 1)))  # noqa: B023
        assert field == "amount"


def test_an_expiry_is_in_the_future_and_can_be_written_as_a_date() -> None:
    for expires_ms in (1001, MAX_MOMENT_MS):
        require_expiry("the expiry", expires_ms, 1000)
    for expires_ms, word in ((1000, "future"), (MAX_MOMENT_MS + 1, "9999")):
        field, message = refuse(lambda: require_expiry("the expiry", expires_ms, 1000))  # noqa: B023
        assert field == "expires"
        assert word in message
