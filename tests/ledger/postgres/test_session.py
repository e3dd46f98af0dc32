"""What is said of a database that cannot be used."""

from __future__ import annotations

import pytest

pytest.importorskip("psycopg", reason="no psycopg: pip install 'gateway[postgres]'")

from gateway.ledger.errors import LedgerError
from gateway.ledger.postgres.session import connect
from tests.support.process import free_port


def test_a_server_that_does_not_run_is_told_by_the_reason() -> None:
    """The driver's message ends with a line of advice, which says less."""
    url = f"postgresql://gateway:secret@127.0.0.1:{free_port()}/gateway"
    with pytest.raises(LedgerError, match=r"127\.0\.0\.1.* failed: Connection refused$") as caught:
        connect(url)
    assert "secret" not in str(caught.value)
