"""Errors of a ledger as a whole, for operators. Refusals of a verb are in `records`."""

from __future__ import annotations


class LedgerError(Exception):
    """The ledger cannot be opened or used; the text names the file or database and what to do."""


class LedgerMissing(LedgerError):
    """There is no database, and its folder could have one."""


class LedgerLocked(LedgerError):
    """Another process serves from this database."""


class FilesLost(LedgerError):
    """A file that is in use was removed or replaced; what is written to it now may be lost."""


class LedgerMismatch(LedgerError):
    """The audit found that balances and entries disagree, so the ledger must not be served from."""
