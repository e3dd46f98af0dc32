"""The verbs about alerts, and the audit that raises one."""

from __future__ import annotations

from pathlib import Path

from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.records import Alert
from gateway.ledger.sqlite.books import SqliteBooks
from tests.extras.alerts.receiver import SECRET, Receiver, listen
from tests.extras.alerts.test_watch import run_verb, write_alerts
from tests.support.rows import each_row
from tests.support.served import prepare


def set_up(folder: Path, receiver: Receiver, more: str = "") -> None:
    prepare(folder, 0, more=write_alerts(receiver, more))


@each_row(("script", "code", "said"), [((), 0, "delivered"), ((500,), 1, "status 500")])
def test_a_test_says_how_each_way_went(
    tmp_path: Path, script: tuple[int, ...], code: int, said: str
) -> None:
    with listen(*script) as receiver:
        set_up(tmp_path, receiver, 'command = ["true"]')
        done = run_verb(tmp_path, "alerts", "test")
    assert done.code == code
    assert done.err.splitlines() == [f"webhook: {said}", "command: delivered"]
    assert SECRET not in done.err + done.out
    assert receiver.kinds() == ["test"]


def test_the_latest_are_listed(tmp_path: Path) -> None:
    with listen() as receiver:
        set_up(tmp_path, receiver)
    with SqliteBooks(tmp_path / "gateway.db") as books:
        AlertBook(books).raise_all([Alert("old_backup", "backup", "1", "Too old.")], ["webhook"])
        (due,) = AlertBook(books).read_due(1)
        AlertBook(books).note_failure(due.id, "status 500", None)
    done = run_verb(tmp_path, "alerts", "list")
    assert "given up: status 500" in done.out
    assert "Too old." in done.out
    assert '"kind":"old_backup"' in run_verb(tmp_path, "alerts", "list", "--json").out.replace(
        " ", ""
    )
