"""The gateway's side of the bench: its configuration, its one caller, and the final check."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.admin import keys
from gateway.config.load import load_table
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.opening import open_books
from gateway.ledger.records import Location
from tests.bench import wire
from tests.bench.wire import Mode

ACCOUNT: Final = "bench"
CREDIT_NANO: Final = 10**15
CHARGES: Final = "SELECT count(*) FROM entries WHERE account_id = ? AND kind = 'charge'"
MAX_IN_FLIGHT: Final = 4000
"""Above the number of streams that are held open."""
INPUT_NANO: Final = 150_000_000
OUTPUT_NANO: Final = 600_000_000
"""Nano-units per million tokens, equal to PRICE."""
PRICE: Final = "{ input = 0.15, output = 0.60 }"
COST_NANO: Final = -(
    -(wire.PROMPT_TOKENS * INPUT_NANO + wire.OUTPUT_TOKENS * OUTPUT_NANO) // 1_000_000
)
"""The cost of every request, as the provider always reports the same tokens."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The ledger's figures after the load."""

    charges: int
    charged_nano: int
    audit_ok: bool

    def is_exact(self, requests: int) -> bool:
        """Return whether every request was charged once, at its cost."""
        charged = (self.charges, self.charged_nano) == (requests, requests * COST_NANO)
        return charged and self.audit_ok


def write_config(folder: Path, port: int, upstream_port: int, url: str = "") -> Path:
    """Write the configuration of a gateway; `url` names its ledger, if that is in PostgreSQL."""
    models = "\n".join(
        f'[models."{wire.name_model(mode)}"]\n'
        f'routes = ["{_name_provider(mode)}/{wire.name_model(mode)}"]\nprice = {PRICE}\n'
        + ("max_output_tokens = 4096\n" if mode == "messages" else "")
        for mode in wire.MODES
    )
    providers = "\n".join(
        f'[providers.{dialect}]\ndialect = "{dialect}"\n'
        f'base_url = "http://127.0.0.1:{upstream_port}/v1"\napi_key = "upstream-key"\n'
        for dialect in ("chat", "messages", "responses")
    )
    path = folder / "gateway.toml"
    storage = f'[storage]\nurl = "{url}"\n\n' if url else ""
    path.write_text(
        f"[server]\nport = {port}\nmax_in_flight = {MAX_IN_FLIGHT}\n\n{storage}"
        "[limits]\nrequests_per_minute = 0\ntokens_per_minute = 0\nconcurrency = 0\n"
        f"account_in_flight = 0\n\n{providers}\n{models}",
        encoding="utf-8",
    )
    return path


def _name_provider(mode: Mode) -> str:
    return mode if mode in ("messages", "responses") else "chat"


def add_caller(config: Path) -> str:
    """Add an account with plenty of money and return its key, which has no limits."""
    with open_books(_find_ledger(config), create=True) as books:
        books.accounts.create(ACCOUNT, credit_nano=CREDIT_NANO)
        new = keys.add_key(books, ACCOUNT, KeyTerms(requests_per_minute=0, concurrency=0))
    return new.secret


def prove(config: Path) -> Proof:
    """Count the charges, and audit the books."""
    with open_books(_find_ledger(config)) as books:
        charges = books.read_number(CHARGES, (books.accounts.find_id(ACCOUNT),))
        charged_nano = CREDIT_NANO - books.accounts.read(ACCOUNT).balance_nano
        audit_ok = not books.audit().problems
    return Proof(charges, charged_nano, audit_ok)


def _find_ledger(config: Path) -> Location:
    return load_table(config, {}, "storage").storage.location
