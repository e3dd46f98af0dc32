"""Without PostgreSQL's driver nothing of it can be imported; without a server, fixtures skip their tests."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("psycopg") else ["test_*.py"]
