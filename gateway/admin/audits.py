"""Audits, of which extras are told if they fail."""

from __future__ import annotations

from gateway.base.progress import Progress, ignore
from gateway.config.records import Config
from gateway.extension import tell_mismatch
from gateway.ledger.records import AuditReport
from gateway.ledger.sql.books import Books


def run_audit(books: Books, config: Config, progress: Progress = ignore) -> AuditReport:
    """Run the full audit; let extras tell if the books do not add up."""
    at_ms = books.clock()  # before the audit, which may take minutes
    report = books.audit(progress)
    if not report.ok:
        text = f"The audit found that the books do not add up: {len(report.problems)} problems."
        tell_mismatch(config, text, at_ms, books)
    return report
