"""The promises that every life keeps, checked without the table of endings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.api.lifecycle import Case, Ending
from tests.api.lives.ledger import WatchedLedger
from tests.api.lives.loop import Log
from tests.api.lives.provider import USAGE, FakeRoute


@dataclass(frozen=True, slots=True)
class Heard:
    """The part of the reply that the caller got."""

    last: str
    """`reply`, `error`, `cut` by a shutdown, or "" if it left."""
    delivered: bool
    """Events were sent to it before the last."""


def judge(
    case: Case | None, ledger: WatchedLedger, routes: Sequence[FakeRoute], log: Log, heard: Heard
) -> None:
    log.check(len(ledger.holds) == 1, "there is one hold")
    if ledger.declined:
        log.check(case is None and not heard.delivered, "what is declined is not served")
        log.check(not any(one.tried for one in routes), "no provider hears of what is declined")
        is_free = ledger.store.hangs or all(hold.resolved for hold in ledger.holds)
        log.check(is_free, "what is declined holds nothing")
        return
    log.check(case is not None, "the life has no ending")
    log.check(len(ledger.settlements) == 1, "there is one settlement")
    still_held = sum(hold.amount_nano for hold in ledger.holds if not hold.resolved)
    is_released = ledger.key.account.held_nano == ledger.key.held_nano == still_held
    is_released &= ledger.store.hangs or not still_held
    log.check(is_released, "the hold is released once, by the commit")
    log.check(ledger.audit() == (), "the books add up")
    log.check(all(one.opened == one.closed for one in routes), "each answer is closed once")
    if case is not None and ledger.settlements:
        (settlement, *_) = ledger.settlements
        log.check((settlement.outcome == "caller_left") == case[1], "the outcome says who left")
        log.check(settlement.cost_nano >= 0, "no charge is negative")
        _judge_money(case, ledger, log, heard)


def _judge_money(case: Case, ledger: WatchedLedger, log: Log, heard: Heard) -> None:
    (settlement, *_) = ledger.settlements
    ending, gone, *_ = case
    if heard.last == "reply":
        log.check(settlement.outcome == "complete", "a whole reply is complete")
        costs_usage = settlement.cost_nano == USAGE["total_tokens"]
        log.check(costs_usage or settlement.estimated, "a whole reply costs its usage")
        log.check(ledger.charged_nano > 0, "a whole reply is charged")
    made = ending is Ending.UNDELIVERABLE
    ended_well = settlement.outcome in {"complete", "caller_left"}
    if not ended_well and settlement.status != 200 and not made:
        log.check(settlement.cost_nano == 0, "an error status costs nothing")
    if heard.delivered and ledger.committed is not None:
        log.check(ledger.charged_nano == settlement.cost_nano, "delivered is charged, if late")
    got_nothing = heard.last != "reply" and not heard.delivered
    # A caller that leaves pays, a reply that was made is charged, and a cut may hit a commit.
    if got_nothing and not gone and not made and not (heard.last == "cut" and ended_well):
        log.check(ledger.charged_nano == 0, "nothing delivered is nothing charged")
