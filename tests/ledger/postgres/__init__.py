"""Tests of the ledger in PostgreSQL. Without its driver they are skipped; without a server, by fixtures."""

import pytest

pytest.importorskip("psycopg", reason="no psycopg: pip install 'gateway[postgres]'")
