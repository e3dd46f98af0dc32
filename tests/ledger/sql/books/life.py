"""The deeds of an operator, chosen by a seed, and what the books answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Final

from gateway.ledger.alert_records import Alert, Hook
from gateway.ledger.call_records import ProviderCosts
from gateway.ledger.key_records import Allowance, KeyTerms, Period
from gateway.ledger.records import CodeTerms, EntryFilter, EntryKind, Refused, StoredSecret
from gateway.ledger.signin_records import Opening, StoredPassword, TokenTerms
from gateway.ledger.sql.database import Value, insert
from gateway.ledger.sql.rows import read_receipt
from gateway.money import Price
from gateway.prices import AppliedPrice
from gateway.times import DAY_MS
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.player import Clock
from tests.ledger.sql.books.places import AnyBooks

DEEDS: Final = 500
PEOPLE: Final = ("", "dana", "Erin")
NAMES: Final = ("a", "B", "ab_", "ä", "Z%", "o's \\")
RANKS: Final = ("name", "balance", "held", "spent_today", "spent_7d", "spent_30d")
KINDS: Final[tuple[EntryKind | None, ...]] = (None, "charge", "credit", "code", "correction")
PERIODS: Final[tuple[Period, ...]] = ("day", "week", "month")
PRICE: Final = AppliedPrice(Price(5, 5, 5, 5, request=5))
ADD_PRICE: Final = "INSERT INTO prices (id, price) VALUES (?, ?) ON CONFLICT DO NOTHING"
TOKENS: Final = {f"{name}_tokens": 9 for name in ("input", "output", "cached_input", "cache_write")}


class Life:
    """Deeds of an operator, chosen by a seed, and noted with their answers."""

    def __init__(self, books: AnyBooks, clock: Clock, seed: int) -> None:
        self.books, self.clock, self.random = books, clock, Random(seed)
        self.keys: list[str] = []
        self.numbers = count(1)
        self.answers: list[str] = []

    def run(self) -> list[str]:
        deeds = [getattr(self, name) for name in sorted(vars(Life)) if name.startswith("do_")]
        for _ in range(DEEDS):
            self.clock.now_ms += self.random.choice((0, 1, 1000, 3_600_000))
            deed = self.random.choice(deeds)
            self.note(deed.__name__, deed)
        self.read_all()
        return self.answers

    def note(self, name: str, ask: Callable[..., object], *values: object) -> None:
        answer: object
        try:
            answer = ask(*values)
        except Refused as refusal:
            answer = (type(refusal), str(refusal))
        self.answers.append(f"{name}: {answer!r}")

    def name(self) -> str:
        return self.random.choice(NAMES)

    def key(self) -> str:
        return self.random.choice(self.keys or ["none"])

    def amount(self) -> int:
        return self.random.choice((1, 7, 10**9, 10**15))

    def soon(self) -> int | None:
        return self.random.choice((None, self.clock() + self.random.randrange(20_000_000)))

    def secret(self, kind: str) -> StoredSecret:
        number = next(self.numbers)
        return StoredSecret(f"{kind}_{number}", number.to_bytes(32), "last")

    def allowance(self) -> Allowance:
        return Allowance(self.amount(), self.random.choice(PERIODS))

    def digest(self) -> bytes:
        return self.random.randrange(1, next(self.numbers) + 1).to_bytes(32)

    def do_add_account(self) -> object:
        is_operator, credit_nano = self.random.random() < 0.5, self.random.choice((0, 10**10))
        return self.books.accounts.create(
            self.name(), credit_nano=credit_nano, operator=is_operator, note="first"
        )

    def do_edit_account(self) -> object:
        models = self.random.choice((None, (), ("m", "ä")))
        operator = self.random.choice((None, True, False))
        return self.books.accounts.edit(self.name(), {"models": models}, operator=operator)

    def do_suspend(self) -> object:
        if self.random.random() < 0.7:
            return self.books.accounts.resume(self.name())
        return self.books.accounts.suspend(self.name(), reason="unpaid")

    def do_add_key(self) -> object:
        new, own = self.secret("key"), self.random.choice((None, self.allowance()))
        cap_nano = self.random.choice((None, 0, 10**12))
        terms = KeyTerms(name="k", cap_nano=cap_nano, expires_ms=self.soon())
        made = self.books.keys.create(self.name(), terms, new, own=own)
        self.keys.append(new.id)
        return made

    def do_edit_key(self) -> object:
        if self.random.random() < 0.5:
            return self.books.keys.edit(self.key(), {}, own=self.allowance())
        budget_id = self.random.choice((None, 1, 2, 3))
        return self.books.keys.edit(self.key(), {"budget_id": budget_id})

    def do_end_key(self) -> object:
        if self.random.random() < 0.5:
            return self.books.keys.revoke(self.key())
        new = self.secret("key")
        made = self.books.keys.replace(self.key(), new, grace_ms=5000)
        self.keys.append(new.id)
        return made

    def do_budget(self) -> object:
        if self.random.random() < 0.4:
            return self.books.budgets.create(self.name(), self.name(), self.allowance())
        budget_id = self.random.randrange(1, 8)
        if self.random.random() < 0.2:
            self.books.budgets.end(budget_id)
            return None
        return self.books.budgets.edit(budget_id, {"allowance": self.allowance()})

    def do_post(self) -> object:
        amount_nano, again = self.amount(), self.random.choice((None, "k1", "k2"))
        if self.random.random() < 0.5:
            return self.books.entries.post(
                self.name(), "credit", amount_nano, note="", idempotency_key=again
            )
        return self.books.entries.post(self.name(), "correction", -amount_nano, note="n")

    def do_codes(self) -> object:
        rows = [self.secret("code") for _ in range(2)]
        terms = CodeTerms(self.name(), self.amount(), self.soon(), "note")
        self.books.codes.add(rows, terms, self.clock())
        return rows

    def do_use_code(self) -> object:
        if self.random.random() < 0.5:
            return self.books.codes.redeem(self.name(), self.digest())
        if self.random.random() < 0.5:
            return self.books.codes.void(f"code_{self.random.randrange(next(self.numbers))}")
        return self.books.codes.void_batch(self.name())

    def do_sign_in(self) -> object:
        new = self.secret("session")
        opening = Opening(new.id, new.digest, "Firefox", "192.0.2.7")
        how, person = self.random.randrange(4), self.random.choice(PEOPLE)
        if how == 0:
            self.books.signins.set_link(self.name(), new.digest, self.clock() + 1, person)
            return self.books.signins.open_by_link(new.digest, opening)
        if how == 1:
            return self.books.signins.set_password(self.name(), "hash", person)
        if how == 2:
            return self.books.signins.open_by_password(
                StoredPassword(self.books.people.read(self.name(), person), "hash"), None, opening
            )
        return self.books.signins.open_by_header(self.name(), opening)

    def do_end_sessions(self) -> object:
        if self.random.random() < 0.8:
            return self.books.signins.find_session(self.digest())
        if self.random.random() < 0.5:
            return self.books.people.remove(self.name(), self.random.choice(PEOPLE))
        return self.books.signins.end_all_sessions(self.name())

    def do_token(self) -> object:
        if self.random.random() < 0.5:
            return self.books.tokens.revoke(self.name())
        made = self.books.tokens.create(
            TokenTerms(self.name(), "read", self.soon()), self.secret("tok")
        )
        return made, self.books.tokens.find(self.digest())

    def do_alert(self) -> object:
        account_id = self.books.accounts.find_id(self.name())
        url = self.random.choice((None, "https://hooks.example.com/"))
        secret, threshold = "whsec" if url else None, self.random.choice((None, 10**9))
        self.books.alerts.set_hook(account_id, Hook(url, secret, threshold))
        self.books.alerts.raise_test(account_id, ["webhook"])
        text = f"Näme {self.name()}"
        self.books.alerts.raise_all([Alert("missing_usage", "p", "x", text)], ["webhook"])
        self.books.alerts.follow(
            "provider_failing", {self.name(): "down"}, {"a": "up"}, ["webhook", "command"]
        )
        threshold = self.random.choice((None, 10**10))
        self.books.alerts.follow_balances(threshold, "USD", ["webhook"])
        return None

    def do_deliver(self) -> object:
        due = self.books.alerts.read_due(3)
        for one in due[:1]:
            self.books.alerts.note_delivered(one.id)
        for one in due[1:]:
            self.books.alerts.note_failure(one.id, "status 500", self.soon())
        return due

    def do_request(self) -> object:
        """Add rows as the serving process would, which need not add up."""
        key = self.books.keys.read(self.key())
        account_id, cost_nano = self.books.accounts.find_id(key.account), self.amount()
        is_pending = self.random.random() < 0.3
        request_id = f"req_{next(self.numbers):08d}"
        end: dict[str, Value] = {"state": "pending", "outcome": "pending", "cost_nano": 0}
        if not is_pending:
            end = {"state": "posted", "outcome": "complete", "status": 200, "first_byte_ms": 3}
            end |= {"cost_nano": cost_nano, "ended_ms": self.clock()}
        row: dict[str, Value] = {
            "price_id": PRICE.id,
            "cache_write_1h_tokens": 0,
            **TOKENS,
            "id": request_id,
            "account_id": account_id,
            "key_id": key.id,
            "model": "m",
            "provider": "p",
            "stream": True,
            "hold_nano": 8,
            "started_ms": self.clock(),
            "estimated": False,
            "attempts": 1,
            "budget_id": key.terms.budget_id,
        }
        figures: dict[str, Value] = {
            "account_id": account_id,
            "day": self.clock() // DAY_MS,
            "key_id": key.id,
            "model": request_id,
            "provider": "p",
            "requests": 1,
            "failed": 0,
            "cost_nano": cost_nano,
            **TOKENS,
            **ProviderCosts()._asdict(),
        }
        with self.books.changing() as connection:
            connection.execute(ADD_PRICE, (PRICE.id, PRICE.text))
            insert(connection, "requests", row | end)
            if not is_pending:
                insert(connection, "daily", figures)
        self.books.entries.post(key.account, "correction", 5, note="sorry", request_id=request_id)
        with self.books.reading() as connection:
            return read_receipt(connection, request_id=request_id)

    def read_all(self) -> None:
        books, today = self.books, self.clock() // DAY_MS
        views = books.accounts.read_all()
        self.note("accounts", lambda: views)
        for part in (None, "Ä", "%"):
            self.note("names", books.accounts.find_names, part)
        for by in RANKS:
            self.note(by, lambda by: sorted(books.accounts.rank(by, today=today).items()), by)
        ids = [view.id for view in views]
        self.note("standings", lambda: books.accounts.read_standings([*ids, 99], today=today))
        for most in (1, 9):
            self.note("top", books.accounts.find_top, today - 29, most)
        self.note("keys", books.keys.read_all)
        for name in NAMES:
            self.note("people", books.people.read_all, name)
        self.note("budgets", books.budgets.read_all)
        self.note("tokens", books.tokens.read_all)
        for status in (None, "open", "redeemed", "void", "expired"):
            for batch in (None, "ab_"):
                self.note("codes", books.codes.read_page, status, batch, None, 9)
        self.note("codes", books.codes.read_page, None, None, "code_5", None)
        for view in views:
            self._read_account(view.id, view.name)
        for part in (None, "KEY", "_", "%", "\\", "'", "ä", "Ä"):
            self.note("event count", books.events.count, part)
            self.note("events", books.events.read_page, part, None, 50)
        self.note("last event", books.events.find_last, "account.edit")
        self.note("alerts", books.alerts.read_latest, 50)
        self.note("due", books.alerts.read_due, 50)

    def _read_account(self, id_: int, name: str) -> None:
        books, now_ms = self.books, self.clock()
        self.note("own budgets", books.budgets.read_all, name)
        self.note("own keys", books.keys.read_all, name)
        for live_at_ms in (None, now_ms):
            for after in (None, (now_ms - 10_000_000, "key_5")):
                read_page = partial(books.keys.read_page, live_at_ms=live_at_ms, after=after)
                self.note("key page", partial(read_page, id_, limit=5))
        for kind in KINDS:
            self.note("entry count", books.entries.count, id_, kind)
            for since_ms in (None, NOW_MS + 50_000_000):
                chosen = EntryFilter(id_, kind, since_ms, now_ms)
                self.note("run", books.entries.read_run, chosen, None, 4)
                self.note("run", books.entries.read_run, chosen, 9, 4)
        self.note("sessions", books.signins.read_sessions, id_)
        self.note("own alerts", books.alerts.read_latest, 9, id_)
