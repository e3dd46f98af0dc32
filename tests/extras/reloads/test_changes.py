"""The differences of a file that was read again."""

from __future__ import annotations

from pathlib import Path

from gateway.extras.reloads.reloader import describe_changes, keep_fixed
from tests.extras.reloads.plain import BASE, keep
from tests.support.extras import need_extra
from tests.support.settings import MODEL, OPENAI, load

MAX_NAMED = 5
OFF = (
    "off: openai (the environment variable NO_SUCH_KEY is not set); only a restart reads the"
    " gateway's environment again"
)


def compare(folder: Path, before: str, after: str) -> str:
    return describe_changes(load(folder, before), load(folder, after))


def test_a_provider_that_stays_off_is_told_again(tmp_path: Path) -> None:
    off = OPENAI + 'api_key = "env:NO_SUCH_KEY"\n' + MODEL
    assert compare(tmp_path, off, off) == f"nothing changed; {OFF}"


def test_only_the_first_names_are_told(tmp_path: Path) -> None:
    """It is one line of the log, and kept for ever."""
    more = "".join(MODEL.replace('"m"', f'"m{number}"') for number in range(MAX_NAMED + 1))
    assert compare(tmp_path, BASE, BASE + more) == "models: 6 added (m0, m1, m2, m3, m4, …)"


def test_the_rest_of_a_table_changes(tmp_path: Path) -> None:
    toml = '[server]\nport = 1\nstall_seconds = 7\n[billing]\ncurrency = "EUR"\nlow_balance = 5\n'
    kept, _ = keep_fixed(load(tmp_path, BASE), load(tmp_path, toml + BASE))
    assert (kept.server.port, kept.server.stall_seconds) == (8080, 7)
    assert (kept.billing.currency, kept.billing.low_balance_nano) == ("USD", 5 * 10**9)


@need_extra("postgres")
def test_another_database_waits_for_a_restart() -> None:
    toml = '[storage]\nurl = "postgresql://h/b"\n'
    assert keep(toml) == ["storage.url"]
    assert keep(f"{toml}retention_months = 2\n") == ["storage.url", "storage.retention_months"]
