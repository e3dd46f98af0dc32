"""`confirm`: what other processes spent and hold counts, and is refused in the words of `hold`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from gateway.errors import GatewayError, InsufficientBalance, RateLimited
from gateway.ledger.base import Hold, Key
from gateway.ledger.key_records import Rate
from gateway.ledger.serving.ledger import ServingLedger
from gateway.money import Tokens
from gateway.tasks import spawn
from tests.ledger.contract.implementations import Needs, needs
from tests.ledger.contract.kit import (
    TOKENS,
    Place,
    admission,
    charge,
    find_key,
    settlement,
    until,
    void,
)

USED: Final = TOKENS.input + TOKENS.cached_input + TOKENS.cache_write + TOKENS.output


UNUSED: Final = replace(void(), tokens=Tokens())


@dataclass(frozen=True)
class Side:
    """A key, as one of two processes knows it."""

    ledger: ServingLedger
    key: Key

    def hold(
        self, amount_nano: int = 10, *, key: Rate | None = None, account: Rate | None = None
    ) -> Hold:
        asked = replace(
            admission(amount_nano), key_rate=key, account_rate=account, expected_tokens=60
        )
        return self.ledger.hold(self.key, asked)

    async def confirm(
        self, amount_nano: int = 10, *, key: Rate | None = None, account: Rate | None = None
    ) -> Hold:
        hold = self.hold(amount_nano, key=key, account=account)
        await self.ledger.confirm(hold)
        return hold

    async def refuse(self, *, key: Rate | None = None, account: Rate | None = None) -> GatewayError:
        """Return why it is not confirmed; then nothing is held and there is nothing to settle."""
        held_nano, open_holds = self.key.account.held_nano, self.ledger.open_holds
        hold = self.hold(key=key, account=account)
        with pytest.raises(GatewayError) as refusal:
            await self.ledger.confirm(hold)
        assert (self.key.account.held_nano, self.key.held_nano) == (held_nano, held_nano)
        assert (hold.resolved, self.ledger.open_holds) == (True, open_holds)
        return refusal.value


@asynccontextmanager
async def two_sides(place: Place, digest: bytes) -> AsyncIterator[tuple[Side, Side]]:
    async with place.serve() as one, place.serve() as two:
        yield Side(one, find_key(one, digest)), Side(two, find_key(two, digest))
    place.assert_sound()


def seed(place: Place) -> bytes:
    return place.seed(credit_nano=1000)


@needs(Needs.NODES)
async def test_a_refusal_that_came_before_confirm_is_told_by_it(place: Place) -> None:
    async with two_sides(place, place.seed(credit_nano=1000)) as (one, two):
        await charge(one.ledger, one.key, 1000)
        hold = two.hold()
        await until(lambda: hold.resolved)
        with pytest.raises(InsufficientBalance):
            await two.ledger.confirm(hold)


@needs(Needs.NODES)
async def test_a_refusal_counts_as_the_end_of_a_request_that_had_ended(place: Place) -> None:
    async with two_sides(place, seed(place)) as (one, two):
        await charge(one.ledger, one.key, 1000)
        hold = two.hold()
        confirming = spawn(two.ledger.confirm(hold), name="confirm")
        await two.ledger.settle(hold, settlement(70))
        with pytest.raises(InsufficientBalance):
            await confirming
        assert (two.key.account.held_nano, two.ledger.open_holds) == (0, 0)
    assert (place.read_balance(), len(place.read_calls())) == (0, 1)


def limit(*, requests: int = 0, tokens: int = 0, concurrency: int = 0) -> Rate:
    return Rate(requests, tokens, concurrency)


@needs(Needs.NODES)
async def test_requests_of_all_processes_count_together(place: Place) -> None:
    three = limit(requests=3)
    async with two_sides(place, place.seed()) as (one, two):
        for side in (one, two, one):
            await side.ledger.settle(await side.confirm(key=three), void())
        for side in (one, two):
            refusal = await side.refuse(key=three)
            assert isinstance(refusal, RateLimited)
            assert str(refusal) == ("This key may make 3 requests per minute. Try again in 20.0 s.")
            assert refusal.retry_after_seconds == pytest.approx(20)


@pytest.mark.parametrize("owner", ["key", "account"])
@needs(Needs.NODES)
async def test_tokens_of_all_processes_count_together(place: Place, owner: str) -> None:
    """The expected tokens count until the end tells the used ones."""
    most: dict[str, Any] = {owner: limit(tokens=200)}
    async with two_sides(place, place.seed()) as (one, two):
        holds = [await side.confirm(**most) for side in (one, two, one)]
        refusal = await two.refuse(**most)
        assert isinstance(refusal, RateLimited)
        assert str(refusal) == (
            f"This {owner} may use 200 tokens per minute and this request takes about 60."
            " Try again in 12.0 s."
        )
        await one.ledger.settle(holds[0], UNUSED)
        assert USED == 175
        await two.ledger.settle(await two.confirm(**most), UNUSED)
        await two.ledger.settle(holds[1], settlement(1))
        assert (await one.refuse(**most)).retry_after_seconds == pytest.approx(
            60 * (60 - (200 - 175 - 60)) / 200
        )


@needs(Needs.NODES)
async def test_a_request_from_before_a_limit_does_not_count(place: Place) -> None:
    most = limit(tokens=200)
    async with two_sides(place, place.seed()) as (one, two):
        earlier = await one.confirm()
        await two.confirm(key=most)
        await one.ledger.settle(earlier, settlement(1))
        await two.confirm(key=most)


@pytest.mark.parametrize(
    ("before", "after"),
    [(limit(requests=1), limit(requests=2)), (limit(tokens=60), limit(tokens=61))],
    ids=["requests", "tokens"],
)
@needs(Needs.NODES)
async def test_a_new_limit_begins_with_a_full_bucket(
    place: Place, before: Rate, after: Rate
) -> None:
    async with two_sides(place, place.seed()) as (one, two):
        await one.confirm(key=before)
        await two.refuse(key=before)
        await two.confirm(key=after)


@needs(Needs.NODES)
async def test_requests_in_flight_of_all_processes_count_together(place: Place) -> None:
    most = limit(concurrency=2)
    async with two_sides(place, place.seed()) as (one, two):
        first, _ = [await side.confirm(key=most) for side in (one, two)]
        for side in (one, two):
            refusal = await side.refuse(key=most)
            assert isinstance(refusal, RateLimited)
            assert "This key has 2 requests in flight" in str(refusal)
        await one.ledger.settle(first, void())
        await two.confirm(key=most)


@pytest.mark.parametrize(
    "rate", [limit(requests=1), limit(tokens=60), limit(concurrency=1)], ids=str
)
@needs(Needs.NODES)
async def test_the_keys_of_an_account_count_together(place: Place, rate: Rate) -> None:
    """The account refuses what each key may do; another account is not concerned."""
    digest = place.seed()
    place.add_account("b")
    digests = [place.add_key("a"), place.add_key("b")]
    async with two_sides(place, digest) as (one, two):
        await one.confirm(account=rate)
        same, other = (Side(two.ledger, find_key(two.ledger, each)) for each in digests)
        assert str(await same.refuse(account=rate)).startswith("This account ")
        await other.confirm(account=rate)
