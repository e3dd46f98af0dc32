"""Counts beside the books, in each implementation of the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from gateway.admin import keys
from gateway.base.errors import AccountError, CallerError, GatewayError, Overloaded
from gateway.base.ids import make_request_id
from gateway.base.times import DAY_MS, HOUR_MS, format_moment
from gateway.extras.observations.book import REFUSED, ObservationBook
from gateway.extras.observations.describing import (
    INVALID,
    REASONS,
    describe_failure,
    explain_refusal,
)
from gateway.extras.observations.describing import REFUSED as REFUSAL
from gateway.extras.observations.records import CallSums, RefusedView, UpstreamFailure, UpstreamView
from gateway.extras.observations.serving import observe
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import NotFound
from tests.extras.observations.kit import make_failure
from tests.ledger.contract import conftest
from tests.ledger.contract.kit import NOW_MS, Place, admission, settlement

place: Final = conftest.place
pytest_generate_tests: Final = conftest.pytest_generate_tests

MADE: Final = frozenset({"failures"})
FAILURES: Final = (
    UpstreamFailure(NOW_MS, "req_1", 401, "status 401: the key is refused", "https://api/v1/chat"),
    UpstreamFailure(NOW_MS, "req_1", None, "connect: Connection refused", "https://spare/v1/chat"),
    UpstreamFailure(
        NOW_MS + 1, "req_1", 400, "status 400", "https://api/v1/chat", "t", "c", "p", rejected=True
    ),
)


async def test_a_call_is_found_with_its_failures(place: Place) -> None:
    async with place.serve_key() as (ledger, key):
        observer = observe(ledger)
        await ledger.settle(ledger.hold(key, admission(id_="req_1")), settlement(77))
        for failure in (*FAILURES, replace(FAILURES[0], request_id="req_3")):
            observer.note_upstream_call("p", "m", failure)
    with place.open_books() as books:
        assert ObservationBook(books).read_failures("req_1", "req_1") == FAILURES
    told = "status 400 (type t, code c, param p) at https://api/v1/chat"
    assert describe_failure(FAILURES[2]) == told


async def test_a_refused_request_is_told_with_its_key_and_why(place: Place) -> None:
    place.seed()
    with place.open_books(now_ms=NOW_MS) as books:
        ann = books.accounts.find_id("a")
        terms = KeyTerms(name="trial", models=("m", "n"), expires_ms=NOW_MS + 10)
        label = keys.add_key(books, "a", terms).key
    made = [make_request_id(NOW_MS + number) for number in range(3)]
    for request_id, code, at_ms in zip(
        made, ("model_not_allowed", "invalid_api_key", "invalid_type"), (1, 20, 30), strict=True
    ):
        async with place.serve(now_ms=NOW_MS + at_ms) as ledger:
            observe(ledger).note_refusal(ann, code, "", request_id, named="x", key_id=label.id)
    with place.open_books(now_ms=NOW_MS) as books:
        told = [ObservationBook(books).find_refused(one) for one in made]
        sums = ObservationBook(books).sum_refused(ann, 0)
    ended = format_moment(NOW_MS + 10)
    assert [explain_refusal(one) for one in told] == [
        "The key may not use the model x. It may use m, n.",
        f"The key ended on {ended} UTC.",
        INVALID,
    ]
    for one in map(REFUSAL.describe, told):
        assert (one["key"], one["key_name"]) == (label.id, "trial")
        assert str(one["key_display"]).startswith("sk-ru-")
    assert [(one.code, one.key.id, one.count) for one in sums] == [
        (code, label.id, 1) for code in ("invalid_api_key", "invalid_type", "model_not_allowed")
    ]


def test_each_refusal_has_words() -> None:
    """Requests that are not valid have codes of many kinds, and one sentence."""
    kinds: list[type[GatewayError]] = [CallerError, AccountError, Overloaded]
    for kind in kinds:
        kinds += kind.__subclasses__()
    named = {getattr(kind, "chat_code", None) for kind in kinds}
    assert {"insufficient_quota", "model_not_found"} < named
    assert named - {None} <= {*REASONS}


def read_upstream(place: Place) -> list[UpstreamView]:
    with place.open_books() as books:
        return ObservationBook(books).read_upstream()


async def test_a_refused_request_is_found_by_its_id_for_a_week(place: Place) -> None:
    """It is found by its account and by operators; none without a valid key is kept."""
    place.seed()
    other = place.add_account("b")
    with place.open_books() as books:
        ann = books.accounts.find_id("a")
    made = []
    for days in (0, 6, 8):
        now_ms = NOW_MS + days * DAY_MS
        made.append(make_request_id(now_ms))
        async with place.serve(now_ms=now_ms) as ledger:
            observe(ledger).note_refusal(
                ann, "model_not_found", "", made[-1], named="no/such", key_id="key_1"
            )
            observe(ledger).note_refusal(None, "invalid_api_key", "", make_request_id(now_ms))
    async with place.serve() as ledger:
        kept_ms = NOW_MS + 8 * DAY_MS
        for request_id, key_id, known in (
            (made[-1], "key_2", []),
            (made[0], "key_1", []),
            (made[-1], "key_1", [(made[-1], kept_ms, "model_not_found", "no/such")]),
        ):
            asked = await ledger.fetch(REFUSED, {"id": request_id, "key": key_id})
            assert list(map(tuple, asked)) == known
    now_ms = NOW_MS + 8 * DAY_MS
    with place.open_books(now_ms=now_ms) as books:
        kept = ObservationBook(books).read_refused(ann, 0, 20)
        assert [one.request_id for one in kept] == made[:0:-1]
        assert ObservationBook(books).read_refused(None, 0, 20) == kept
        assert ObservationBook(books).read_refused(None, now_ms, 20) == kept[:1]
        assert ObservationBook(books).read_refused(other, 0, 20) == []
        assert ObservationBook(books).find_refused(made[-1]) == kept[0]
        found = ObservationBook(books).find_refused(made[-1], account_id=ann)
        assert found == RefusedView(made[-1], "a", now_ms, "model_not_found", "no/such")
        for wanted, account_id in ((made[0], ann), (made[-1], other)):
            with pytest.raises(NotFound, match="no request that was refused"):
                ObservationBook(books).find_refused(wanted, account_id=account_id)


async def test_no_account_pushes_out_all_refused_requests_of_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latest ones of each day are kept, and fewer of one account than of all."""
    monkeypatch.setattr("gateway.extras.observations.book.REFUSED_A_DAY", 4)
    monkeypatch.setattr("gateway.extras.observations.book.REFUSED_OF_ACCOUNT_A_DAY", 3)
    place.seed()
    with place.open_books() as books:
        ann = books.accounts.find_id("a")
    ben, cai = place.add_account("b"), place.add_account("c")
    kept: list[list[str]] = []
    for now_ms, accounts in (
        (NOW_MS, [ben, ann, ann, ann, ann, ann]),
        (NOW_MS + 10, [cai, cai]),
        (NOW_MS + DAY_MS, [ann, ann]),
    ):
        async with place.serve(now_ms=now_ms) as ledger:
            for number, account_id in enumerate(accounts):
                observe(ledger).note_refusal(account_id, "c", "", make_request_id(now_ms + number))
        with place.open_books(now_ms=now_ms) as books:
            kept.append([one.account for one in ObservationBook(books).read_refused(None, 0, 20)])
    assert kept == [["a", "a", "a", "b"], ["c", "c", "a", "a"], ["a", "a", "c", "c", "a", "a"]]


async def test_rejections_are_no_failures_and_push_none_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller can have as many rejections as it likes."""
    monkeypatch.setattr("gateway.extras.observations.book.KEPT_FAILURES", 2)
    async with place.serve_key() as (ledger, key):
        await ledger.settle(ledger.hold(key, admission(id_="req_1")), settlement(7))
    one = replace(make_failure(), request_id="req_1")
    for rejected, count in ((False, 3), (True, 4)):
        async with place.serve() as ledger:
            for number in range(count):
                failure = replace(one, reason=f"{rejected} {number}", rejected=rejected)
                observe(ledger).note_upstream_call("p", "m", failure)
    with place.open_books() as books:
        kept = [one.reason for one in ObservationBook(books).read_failures("req_1", "req_1")]
    assert kept == ["False 1", "False 2", "True 2", "True 3"]
    (view,) = read_upstream(place)
    assert (view.today, view.failure) == (CallSums(7, 3), replace(one, reason="False 2"))


async def test_past_days_are_read_once_an_hour(place: Place) -> None:
    """Pages ask every few seconds, so what comes late for a past day is told an hour later."""
    place.seed()
    old = make_failure(NOW_MS - 3 * DAY_MS)
    for at_ms, failure in ((NOW_MS - 9 * DAY_MS, None), (old.at_ms, old)):
        async with place.serve(now_ms=at_ms) as ledger:
            observe(ledger).note_upstream_call("p", "m", failure)
            observe(ledger).note_upstream_call("q", "m", None)
    now_ms = [NOW_MS]
    with place.open_books() as books:
        books.clock = lambda: now_ms[0]
        before = ObservationBook(books).read_upstream()
        assert [(one.provider, one.latest.calls, one.failure) for one in before] == [
            ("p", 1, old),
            ("q", 1, None),
        ]
        async with place.serve() as ledger:
            for _ in range(2):
                observe(ledger).note_upstream_call("p", "m", None)
        p, q = ObservationBook(books).read_upstream()
        assert (p.hour, p.latest, p.failure) == (CallSums(2), CallSums(2), old)
        assert q == before[1]
        async with place.serve(now_ms=old.at_ms) as ledger:
            observe(ledger).note_upstream_call("q", "m", None)
        assert ObservationBook(books).read_upstream() == [p, q]
        now_ms[0] += HOUR_MS
        p, q = ObservationBook(books).read_upstream()
        assert (p.hour, p.latest, q.latest) == (CallSums(), CallSums(2), CallSums(2))
        now_ms[0] += DAY_MS
        p, q = ObservationBook(books).read_upstream()
        assert (p.hour, p.latest, p.failure) == (CallSums(), CallSums(2), old)
