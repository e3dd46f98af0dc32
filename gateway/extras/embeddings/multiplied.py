"""The fields that make more vectors than are counted."""

from __future__ import annotations

from typing import Final

from gateway.dialects.wire.multiplied import other_inputs

MULTIPLIED: Final = other_inputs("input")
