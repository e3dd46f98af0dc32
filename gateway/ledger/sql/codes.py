"""Top-up codes, each of which is redeemed by one entry at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.ledger.records import (
    CodeStatus,
    CodeTerms,
    CodeView,
    Conflict,
    EntryView,
    InvalidCode,
    NotFound,
    StoredSecret,
)
from gateway.ledger.sql.database import (
    MAX_ROWS,
    Connection,
    Database,
    Part,
    Value,
    read_account,
    read_script,
)
from gateway.ledger.sql.entries import EntryBook
from gateway.money import format_amount

_SQL: Final = read_script(__file__)
_EACH_CODE: Final = _SQL["each"]
_COUNT_CODES: Final = "SELECT count(*) FROM codes"
_CODE: Final = _EACH_CODE + " WHERE codes.id = ?"

_CONDITIONS: Final[dict[CodeStatus | None, str]] = {
    None: " TRUE",
    "open": (
        " redeemed_ms IS NULL AND voided_ms IS NULL AND (expires_ms IS NULL OR expires_ms > :now)"
    ),
    "redeemed": " redeemed_ms IS NOT NULL",
    "void": " voided_ms IS NOT NULL",
    "expired": " redeemed_ms IS NULL AND voided_ms IS NULL AND expires_ms <= :now",
}
_IN_BATCH: Final = " AND (:batch IS NULL OR batch = :batch)"
_BEHIND: Final = " AND (:after IS NULL OR codes.id < :after) ORDER BY codes.id DESC LIMIT :limit"


class CodeBook(Part):
    def __init__(self, database: Database, entries: EntryBook) -> None:
        super().__init__(database)
        self._entries = entries

    def add(self, rows: Sequence[StoredSecret], terms: CodeTerms, now_ms: int) -> None:
        shared = (terms.batch, terms.amount_nano, terms.note, self._database.actor.name, now_ms)
        with self._database.changing() as connection:
            connection.executemany(
                _SQL["add"],
                [(row.id, row.digest, row.last4, *shared, terms.expires_ms) for row in rows],
            )
            detail = f"{len(rows)} of {format_amount(terms.amount_nano)}"
            if terms.note:
                detail += f": {terms.note}"
            self._database.note("code.make", account=None, target=terms.batch, detail=detail)

    def read_page(
        self, status: CodeStatus | None, batch: str | None, after: str | None, limit: int | None
    ) -> tuple[int, list[CodeView]]:
        """Return how many match, and those behind the id `after`, newest first; None: no limit."""
        where = {"now": self._database.clock(), "batch": batch}
        condition = " WHERE" + _CONDITIONS[status] + _IN_BATCH
        page = {**where, "after": after, "limit": MAX_ROWS if limit is None else limit}
        with self._database.reading() as connection:
            (total,) = connection.execute(_COUNT_CODES + condition, where).fetchone()
            rows = connection.execute(_EACH_CODE + condition + _BEHIND, page)
            return total, [CodeView(*row) for row in rows]

    def void(self, code_id: str) -> CodeView:
        """Void a code at once; a code that is void already keeps its time."""
        with self._database.changing() as connection:
            code = _read_code(connection, code_id)
            if code.redeemed_ms is not None:
                raise Conflict(
                    f"code {code_id} was redeemed by '{code.redeemed_by}';"
                    " correct that account's balance instead",
                    code="code_redeemed",
                )
            if code.voided_ms is not None:
                return code
            connection.execute(_SQL["void"], {"now": self._database.clock(), "id": code_id})
            detail = format_amount(code.amount_nano)
            self._database.note("code.void", account=None, target=code_id, detail=detail)
            return _read_code(connection, code_id)

    def void_batch(self, batch: str) -> int:
        """Void the open codes of a batch; return how many there were."""
        with self._database.changing() as connection:
            if not connection.execute("SELECT 1 FROM codes WHERE batch = ?", (batch,)).fetchone():
                raise NotFound(f"there is no batch '{batch}'")
            where: dict[str, Value] = {"now": self._database.clock(), "batch": batch}
            count = connection.execute(_SQL["void batch"], where).rowcount
            self._database.note("code.void", account=None, target=batch, detail=f"{count} open")
            return count

    def redeem(self, account: str, digest: bytes) -> EntryView:
        """Credit the account with a code, at most once. Raises InvalidCode."""
        with self._database.changing() as connection:
            now_ms = self._database.clock()
            found = connection.execute(
                _SQL["find open"], {"digest": digest, "now": now_ms}
            ).fetchone()
            if found is None:
                # One error for all reasons: a guess must not learn that a code exists.
                raise InvalidCode(_find_own(connection, account, digest))
            code_id, last4, amount_nano = found
            owner = read_account(connection, account)
            entry = self._entries.post(
                account, "code", amount_nano, note=f"code ····{last4}", target=code_id
            )
            # The entry is posted by now, so the code has to be taken in this transaction or never.
            taken = connection.execute(
                _SQL["redeem"],
                {"now": now_ms, "account": owner.id, "entry": entry.id, "id": code_id},
            )
            if taken.rowcount != 1:
                raise InvalidCode
            return entry


def _find_own(connection: Connection, account: str, digest: bytes) -> int | None:
    """Return when this account redeemed the code; None if it never did."""
    found = connection.execute(_SQL["find own"], {"digest": digest, "account": account}).fetchone()
    return None if found is None else int(found[0])


def _read_code(connection: Connection, code_id: str) -> CodeView:
    row = connection.execute(_CODE, (code_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no code '{code_id}'")
    return CodeView(*row)
