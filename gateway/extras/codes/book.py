"""Top-up codes, each of which is redeemed by one entry at most."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from gateway.admin import keys
from gateway.base.money import format_amount
from gateway.extras.codes.records import CodeStatus, CodeTerms, CodeView, InvalidCode, NewCodes
from gateway.extras.signins import typed
from gateway.ledger import checks
from gateway.ledger.records import Conflict, EntryView, NotFound, Refused, StoredSecret
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import MAX_ROWS, Part, Values, read_script

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
_FOUND: Final = (
    " WHERE last4 = upper(:last4) OR batch LIKE :part ESCAPE '\\' OR note LIKE :part ESCAPE '\\'"
    " ORDER BY codes.id DESC LIMIT :limit"
)
_IN_BATCH: Final = " AND (:batch IS NULL OR batch = :batch)"
_BEHIND: Final = " AND (:after IS NULL OR codes.id < :after) ORDER BY codes.id DESC LIMIT :limit"


class CodeBook(Part):
    def __init__(self, books: Books) -> None:
        super().__init__(books)
        self._entries = books.entries

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
            self._note("code.make", terms.batch, detail)

    def read_page(
        self, status: CodeStatus | None, batch: str | None, after: str | None, limit: int | None
    ) -> tuple[int, list[CodeView]]:
        """Return the number of codes that match, and those behind the id `after`, the newest first."""
        where = {"now": self._database.clock(), "batch": batch}
        condition = " WHERE" + _CONDITIONS[status] + _IN_BATCH
        page = {**where, "after": after, "limit": MAX_ROWS if limit is None else limit}
        total = self._database.read_number(_COUNT_CODES + condition, where)
        rows = self._database.fetch(_EACH_CODE + condition + _BEHIND, page)
        return total, [CodeView(*row) for row in rows]

    def search(self, text: str, limit: int) -> list[CodeView]:
        """Return codes by their last characters, or by a part of their batch or note, newest first.

        A whole code is searched by its last characters. Other long texts are not, as they end so by chance.
        """
        part = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        code = typed.read_code(text)
        end = code[-typed.GROUP_CHARS :] if code else text.lstrip("·-")  # as a code is shown
        wanted: Values = {"last4": end, "part": f"%{part}%", "limit": limit}
        return [CodeView(*row) for row in self._database.fetch(_EACH_CODE + _FOUND, wanted)]

    def void(self, code_id: str) -> CodeView:
        """Void a code at once; a code that is void already keeps its time."""
        with self._database.changing():
            code = self._read(code_id)
            if code.redeemed_ms is not None:
                raise Conflict(
                    f"code {code_id} was redeemed by '{code.redeemed_by}';"
                    " correct that account's balance instead",
                    code="code_redeemed",
                )
            if code.voided_ms is not None:
                return code
            self._database.update("codes", code_id, {"voided_ms": self._database.clock()})
            self._note("code.void", code_id, format_amount(code.amount_nano))
            return self._read(code_id)

    def void_batch(self, batch: str) -> int:
        """Void the open codes of a batch; return how many there were."""
        with self._database.changing():
            missing = NotFound(f"there is no batch '{batch}'")
            self._database.require_one("SELECT 1 FROM codes WHERE batch = ?", (batch,), missing)
            where: Values = {"now": self._database.clock(), "batch": batch}
            count = self._database.change(_SQL["void batch"], where)
            self._note("code.void", batch, f"{count} open")
            return count

    def redeem(self, account: str, digest: bytes) -> EntryView:
        """Credit the account with a code, at most once. Raises InvalidCode."""
        with self._database.changing():
            now_ms = self._database.clock()
            found = self._database.read_one(_SQL["find open"], {"digest": digest, "now": now_ms})
            if found is None:
                # One error for all reasons: a guess must not learn that a code exists.
                raise InvalidCode(self._find_redeemed_ms(account, digest))
            code_id, last4, amount_nano = found
            owner = self._database.read_account(account)
            entry = self._entries.post(
                account, "code", amount_nano, note=f"code ····{last4}", target=code_id
            )
            # The entry is posted by now, so the code has to be taken in this transaction or never.
            taken = {"now": now_ms, "account": owner.id, "entry": entry.id, "id": code_id}
            if self._database.change(_SQL["redeem"], taken) != 1:
                raise InvalidCode
            return entry

    def _find_redeemed_ms(self, account: str, digest: bytes) -> int | None:
        """Return when this account redeemed the code; None if it never did."""
        own: Values = {"digest": digest, "account": account}
        found = self._database.read_one(_SQL["find own"], own)
        return None if found is None else int(found[0])

    def _read(self, code_id: str) -> CodeView:
        missing = NotFound(f"there is no code '{code_id}'")
        return CodeView(*self._database.require_one(_CODE, (code_id,), missing))

    def _note(self, action: str, target: str, detail: str) -> None:
        self._database.note(action, account=None, target=target, detail=detail)


MAX_CODES: Final = 1000
"""The most codes of a batch: they are written in one transaction, which others wait for."""

CODE_ID_BYTES: Final = 4
"""Random bytes of a code's id, which also has the time and a number in its batch."""


def make_codes(
    books: Books, amount_nano: int, count: int, *, expires_ms: int | None = None, note: str = ""
) -> NewCodes:
    """Create a batch of codes. Only the returned record contains the secrets."""
    now_ms = books.clock()
    checks.require_amount(amount_nano)
    if amount_nano <= 0:
        raise Refused("a code must be worth something", field="amount")
    if not 1 <= count <= MAX_CODES:
        raise Refused(f"a batch has 1 to {MAX_CODES} codes", field="count")
    if expires_ms is not None:
        checks.require_expiry("the codes' expiry", expires_ms, now_ms)
    checks.require_note("the note", note)
    batch = "batch_" + secrets.token_hex(keys.ID_BYTES)
    made = tuple(typed.make_code() for _ in range(count))
    rows = [
        StoredSecret(_make_id(now_ms, number), typed.digest_code(code), code[-typed.GROUP_CHARS :])
        for number, code in enumerate(made)
    ]
    CodeBook(books).add(rows, CodeTerms(batch, amount_nano, expires_ms, note), now_ms)
    return NewCodes(batch, made, amount_nano, expires_ms, now_ms)


def redeem(books: Books, account: str, text: str) -> EntryView:
    """Credit the account with a code; case, dashes and spaces do not matter."""
    code = typed.read_code(text)
    if code is None:
        raise InvalidCode
    return CodeBook(books).redeem(account, typed.digest_code(code))


def _make_id(now_ms: int, number: int) -> str:
    # The time leads, so that codes sort by it.
    return f"code_{now_ms:012x}{number:03x}{secrets.token_hex(CODE_ID_BYTES)}"
