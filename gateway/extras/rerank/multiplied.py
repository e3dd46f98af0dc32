"""The fields that make more ranks than are counted."""

from __future__ import annotations

from typing import Final

from gateway.dialects.wire.multiplied import other_inputs

# `texts` is TEI's name of the documents. Callers send one of both.
MULTIPLIED: Final = other_inputs("documents", "query", "texts")
