"""Replies without a usage, as they are counted. `examples.txt` has the rest."""

from __future__ import annotations

import logging

import pytest

from gateway.base.times import HOUR_MS
from gateway.base.usage import MissingUsages


def test_each_provider_and_model_is_logged_once_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    found = MissingUsages()
    with caplog.at_level(logging.WARNING):
        for now_ms in (0, 1, HOUR_MS - 1, HOUR_MS, HOUR_MS + 1):
            found.note("alpha", "m", now_ms)
        found.note("beta", "m", 1)
        found.note("alpha", "other", 1)
    said = [record.getMessage() for record in caplog.records]
    assert [one.split(" ")[1] for one in said] == ["alpha", "alpha", "beta", "alpha"]
    assert "for model m: 4 replies are charged by an estimate" in said[1]
    latest = [(one.provider, one.model, one.count, one.last_ms) for one in found.list_latest()]
    assert latest[0] == ("alpha", "m", 5, HOUR_MS + 1)
