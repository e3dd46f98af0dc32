"""How far below zero a balance can fall: by one request, and by what was not foreseen of the others.

Random prices, limits and usage, against the very functions that hold and release. After an
admission the balance covers the most that all requests but the newest may cost, so in the end

    balance > -(the most that the newest may cost + the sum of what each costs beyond its most)

Beyond its most it costs what the estimate of its input lacks. With `full_hold_below = 0` the most is
what is held, so there it is the output beyond `hold_output_tokens`, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import orjson

from gateway.api.admission import expect_usage
from gateway.api.billing import Bill, open_bill
from gateway.api.front import KeyedCall
from gateway.api.lifecycle import Last, Owed, Verdict
from gateway.api.limits import Rates
from gateway.base.errors import BalanceHeld, InsufficientBalance
from gateway.base.money import Price, Tokens, compute_cost_nano
from gateway.base.prices import NOTHING_SPECIAL, PriceList, PriceRule
from gateway.base.times import unix_ms
from gateway.base.usage import Metered, MissingUsages
from gateway.config.records import Model
from gateway.dialects.wire.records import CompletionRequest, InputUnit, Payload, Target
from gateway.ledger.base import Account, Admission, Hold, Key, Line, Settlement
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.serving.memory import drop_hold, raise_to, take_hold
from tests.support.formats import EXCHANGES, SERVICES
from tests.support.records import make_bill_config, make_call
from tests.support.rows import each_row

RUNS: Final = 20
STEPS: Final = 60
COMPLETE: Final = Verdict("complete", 200, Owed.USAGE, Last.REPLY)


class MemoryLedger:
    """Settles at once; the holds and their checks are the ledger's own."""

    clock = staticmethod(unix_ms)

    def __init__(self) -> None:
        self.account = Account(1, "a", suspended=False, balance_nano=0)
        self.clock = unix_ms
        self.key = Key("k", self.account, KeyTerms(), Line("k"))

    def hold(self, key: Key, admission: Admission) -> Hold:
        return take_hold(key, admission)

    def raise_hold(self, hold: Hold, amount_nano: int) -> None:
        raise_to(hold, amount_nano)

    def settle(self, hold: Hold, settlement: Settlement) -> None:
        assert settlement.cost_nano == compute_cost_nano(
            settlement.tokens, settlement.price.price, settlement.tool_calls
        )
        drop_hold(hold)
        self.account.balance_nano -= settlement.cost_nano


@dataclass(slots=True)
class InFlight:
    bill: Bill
    call: KeyedCall
    model: Model
    request: CompletionRequest
    input_tokens: int
    """The real input, which the estimate knows to a factor of two."""
    most_nano: int
    """The most that it may cost, or its hold if that is more by now."""
    covered_nano: int = 0
    """The same when the newest request was admitted: so much the balance covered."""


@dataclass(slots=True)
class World:
    """An account, the requests in flight on it, and the most that may be missing in the end."""

    dice: random.Random
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    in_flight: list[InFlight] = field(default_factory=list)
    newest_most_nano: int = 0
    beyond_nano: int = 0
    refused: int = 0
    held_in_full: int = 0

    @property
    def left_nano(self) -> int:
        account = self.ledger.account
        return account.available_nano - account.unheld_nano

    def admit(self, hold_output_tokens: int, full_hold_below: int) -> None:
        dice = self.dice
        model = make_model(dice)
        limit = dice.choice((None, 1, 50, 10**6))
        request = CompletionRequest({}, "m", True, True, dice.choice((1, 1, 3)), limit, 0, 0)
        payload = Payload(b"x" * dice.randrange(1, 4000), NOTHING_SPECIAL)
        expected = expect_usage(request, payload, model)
        gateway = SimpleNamespace(
            ledger=self.ledger,
            missing_usages=MissingUsages(),
            config=make_bill_config(hold_output_tokens, full_hold_below),
        )
        rates = Rates()
        call = make_call(gateway=gateway, key=self.ledger.key, rates=rates)
        before, held_before = self.left_nano, self.ledger.account.held_nano
        try:
            bill = open_bill(call, request, model, expected)
        except (InsufficientBalance, BalanceHeld):
            assert before <= 0
            self.refused += 1
            return
        assert before > 0
        most_nano = before - self.left_nano
        output = count_output(request, model)
        full_nano = compute_cost_nano(
            Tokens(expected.input_tokens, output=output), model.prices.base
        )
        if full_hold_below:
            assert most_nano >= full_nano
        if before < full_hold_below * full_nano:
            assert self.ledger.account.held_nano - held_before == most_nano
            self.held_in_full += 1
        real = dice.randrange(expected.input_tokens // 2, 2 * expected.input_tokens + 1)
        self.in_flight.append(InFlight(bill, call, model, request, max(real, 1), most_nano))
        self.newest_most_nano = most_nano
        self.beyond_nano = 0
        for one in self.in_flight:
            one.covered_nano = one.most_nano

    def progress(self) -> None:
        """A report in the middle of a stream."""
        one = self.dice.choice(self.in_flight)
        before = self.left_nano
        tokens = Tokens(one.input_tokens, output=self.dice.randrange(20))
        one.bill.raise_to(Metered(tokens, estimated=False))
        raised = before - self.left_nano
        assert raised >= 0
        one.most_nano += raised

    def end(self) -> None:
        one = self.in_flight.pop(self.dice.randrange(len(self.in_flight)))
        most = count_output(one.request, one.model)
        tokens = Tokens(one.input_tokens, output=self.dice.randrange(1, most + 1))
        _ = one.bill.settle(COMPLETE, lambda: Metered(tokens, estimated=False))
        assert one.call.settlement is not None
        cost_nano = one.call.settlement.cost_nano
        self.beyond_nano += max(cost_nano - one.covered_nano, 0)
        worst = replace(tokens, output=most)
        dearest = max(
            (one.model.prices.base, *(rule.price for rule in one.model.prices.rules)),
            key=lambda price: compute_cost_nano(worst, price),
        )
        assert cost_nano <= compute_cost_nano(worst, dearest)


def count_output(request: CompletionRequest, model: Model) -> int:
    """Return the most tokens of all choices."""
    return expect_usage(request, Payload(b"", NOTHING_SPECIAL), model).limits.estimated_output


def make_model(dice: random.Random) -> Model:
    def price() -> Price:
        given, made = dice.randrange(1, 10**7), dice.randrange(1, 10**8)
        return Price(given, made, given, given, request=dice.randrange(5))

    rules = (PriceRule(price(), input_above=dice.randrange(500)),) if dice.random() < 0.5 else ()
    most = dice.choice((100, 4000))
    return Model("m", "o", (), most, 100_000, None, 0, PriceList(price(), rules), frozenset())


@each_row(
    ("hold_output_tokens", "full_hold_below"), [(10, 0), (10**6, 0), (10, 1), (10, 10), (10, 10**6)]
)
def test_a_balance_falls_by_no_more_than_what_is_in_flight_beyond_its_holds(
    hold_output_tokens: int, full_hold_below: int
) -> None:
    seed = random.randrange(2**32)
    print("seed:", seed)
    dice = random.Random(seed)
    lowest = held_in_full = 0
    for _ in range(RUNS):
        world = World(dice)
        world.ledger.account.balance_nano = dice.randrange(1, 200_000)
        for _ in range(STEPS):
            step = dice.random()
            if step < 0.5 or not world.in_flight:
                world.admit(hold_output_tokens, full_hold_below)
            elif step < 0.75:
                world.progress()
            else:
                world.end()
            check(world)
        while world.in_flight:
            world.end()
            check(world)
        account = world.ledger.account
        assert (account.held_nano, account.unheld_nano) == (0, 0)
        lowest = min(lowest, world.ledger.account.balance_nano)
        held_in_full += world.held_in_full
    print("lowest balance:", lowest)
    assert (held_in_full > 0) == (full_hold_below > 0)


def check(world: World) -> None:
    """The bound holds at each step, as nothing is admitted while nothing is available."""
    balance = world.ledger.account.balance_nano
    if balance < 0:
        assert -balance < world.newest_most_nano + world.beyond_nano


OF_NAME: Final = {**{name: exchanges[name] for name, exchanges in EXCHANGES.items()}, **SERVICES}
DEAREST: Final = Price(10**9, 5 * 10**9, 10**8, 10**9, web_search=10**10, audio_input=3 * 10**10)


def read_bodies() -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Read the requests of `crowds.txt`: the dialect, the body, and whether its bytes bound what is read."""
    is_text = False
    for line in Path(__file__).with_name("crowds.txt").read_text("utf-8").splitlines():
        name, _, body = line.partition(" ")
        if name == "==":
            is_text = body == "text alone"
        elif name in OF_NAME:
            yield name, orjson.loads(body), is_text


def read_call(name: str, body: dict[str, Any], model: Model) -> tuple[CompletionRequest, Payload]:
    """Read a request as its caller sends it, and write it for a provider of the same dialect."""
    exchange = OF_NAME[name]
    body = {"model": "m", **({"max_tokens": 50} if name == "messages" else {}), **body}
    request = exchange.caller.parse_request(orjson.dumps(body))
    allow = frozenset({"cached_content", "image"})
    target = Target("u", prices=model.prices, allow=allow, unit=model.unit)
    return request, exchange.write_request(request, target)


def play_crowd(
    request: CompletionRequest, payload: Payload, model: Model, balance_nano: int, *, is_text: bool
) -> int:
    """Send a request 60 times at once, each with the dearest report; return how many were admitted."""
    world = World(random.Random(0))
    world.ledger.account.balance_nano = balance_nano
    expected = expect_usage(request, payload, model)
    config = make_bill_config(20, 10)
    gateway = SimpleNamespace(ledger=world.ledger, missing_usages=MissingUsages(), config=config)
    bills = []
    for _ in range(60):
        call = make_call(gateway=gateway, key=world.ledger.key, rates=Rates())
        try:
            bills.append(open_bill(call, request, model, expected))
        except (InsufficientBalance, BalanceHeld):
            break
    inputs = 1 if request.inputs is None else request.inputs.count
    read = expected.input_tokens if is_text else model.max_input_tokens * inputs
    price = model.prices.applied[-1].price  # the last rule applies, if there is one
    dearest = max(("input", "cached_input", "cache_write"), key=lambda name: getattr(price, name))
    tokens = Tokens(output=count_output(request, model))
    setattr(tokens, dearest, read)
    tokens.media = {"audio_input": 0 if is_text else read}
    metered = Metered(tokens, False, payload.options.tool_calls)
    most_nano = compute_cost_nano(tokens, price, metered.tool_calls)
    for bill in bills:
        _ = bill.settle(COMPLETE, lambda: metered)
    assert world.ledger.account.balance_nano > -most_nano, (len(bills), most_nano)
    return len(bills)


def make_reader(unit: InputUnit, prices: PriceList) -> Model:
    most, read = (0, 14_400) if unit == "second" else (100, 100_000)
    return Model("m", "o", (), most, read, None, 0, prices, frozenset(), unit=unit)


UNITS: Final[dict[str, InputUnit]] = {"speech": "character"}


def draw_balances() -> list[int]:
    """Draw balances from a nano-unit to some hundred times what a request may cost."""
    seed = random.randrange(2**32)
    print("seed:", seed)
    dice = random.Random(seed)
    return [1, *(int(10 ** dice.uniform(3, 12)) for _ in range(7))]


@each_row(("name", "body", "is_text"), read_bodies())
def test_a_crowd_of_any_requests_costs_less_than_one_too_much(
    name: str, body: dict[str, Any], *, is_text: bool
) -> None:
    dear_write = replace(DEAREST, cache_write=10**11)
    for prices in (
        PriceList(DEAREST),
        PriceList(replace(DEAREST, cached_input=10**11)),
        PriceList(dear_write),
        PriceList(DEAREST, (PriceRule(dear_write, service_tier="standard"),)),
    ):
        model = make_reader(UNITS.get(name, "token"), prices)
        request, payload = read_call(name, body, model)
        served = [
            play_crowd(request, payload, model, balance_nano, is_text=is_text)
            for balance_nano in (*draw_balances(), 10**14)
        ]
        assert served[0] == 1, "a positive balance is good for one"
        assert served[-1] == 60
