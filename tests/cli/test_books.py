"""Books on the command line."""

from __future__ import annotations

import pytest

from gateway.base.process import ExitCode
from gateway.ledger.sqlite import backup
from tests.long.million import History, fill_previous
from tests.support.cli import Cli, watch_progress
from tests.support.stand_in import PASSWORD, SHOWN, URL, stand_in


def test_backups_of_a_database_elsewhere_are_its_own(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is opened, so no server has to run."""
    opened = stand_in(monkeypatch, cli.folder / "behind.db")
    cli.config.write_text(f'[storage]\nurl = "{URL}"\n')
    ran = cli.run("backup", str(cli.folder / "copy.db"))
    assert (ran.code, ran.out) == (ExitCode.FAILED, "")
    assert (
        f"{SHOWN} is not copied to a file: backups of a database of PostgreSQL are its own"
        in ran.err
    )
    assert "pg_dump" in ran.err
    assert PASSWORD not in ran.err
    assert not (cli.folder / "copy.db").exists()
    assert opened == []


def test_a_database_elsewhere_without_a_ledger_is_told_by_its_address(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.config.write_text(f'[storage]\nurl = "{URL}"\n')
    stand_in(monkeypatch, cli.folder / "behind.db")
    ran = cli.run("account", "list")
    assert ran.code == ExitCode.NOT_FOUND
    assert f"there is no ledger in {SHOWN}; 'serve' or" in ran.err


def test_long_verbs_tell_how_far_they_are(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade, an audit and a copy; with `--json` nothing is told."""
    fill_previous(cli.database, History(requests=60, days=3, models=3, keys=4, models_per_key=2))
    monkeypatch.setattr(backup, "SYNC_SECONDS", 0)
    monkeypatch.setattr(backup, "STEPS_BETWEEN_LOOKS", 100)
    told = watch_progress(monkeypatch)
    cli.done("audit")
    cli.done("backup", str(cli.folder / "copy.db"))
    units = {step.split()[0]: (total, unit) for step, _, total, unit in told if unit}
    assert {step: unit for step, (_, unit) in units.items()} == {
        "copying": "bytes",
        "upgrading": "statements",
        "proving": "rows",
    }
    # A copy may have a page more than the pages in use of a small file.
    assert units["copying"][0] > 0.9 * (cli.folder / "copy.db").stat().st_size
    rows = [(done, total) for step, done, total, _ in told if step == "proving the books"]
    assert rows == sorted(rows)
    assert rows[0][0] == 0 < rows[-1][0] <= rows[-1][1]
    told.clear()
    cli.done("audit", "--json")
    assert told == []
