"""The list of models in the form of Anthropic's API: pages with cursors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from gateway.dialects.records import Json, ListedModel, Query
from gateway.errors import BadRequest

DEFAULT_PAGE: Final = 20
"""Models of a page, as in Anthropic's API."""
MAX_PAGE: Final = 1000
"""Models of a page, as in Anthropic's API."""


def make_page(models: Sequence[ListedModel], query: Query) -> Json:
    """Make a page of the list: `limit` models after `after_id`, or right before `before_id`.

    Raises BadRequest for a limit out of range or an id that is not in the list.
    """
    limit = _read_limit(query.get("limit"))
    wanted = [*query.get("lifecycle", ()), *query.get("lifecycle[]", ())]
    if wanted and "active" not in wanted:
        models = ()  # all that is served is active
    after, before = query.get("after_id"), query.get("before_id")
    if after:
        models = models[_find(models, "after_id", after[0]) + 1 :]
    if before:
        models = models[: _find(models, "before_id", before[0])]
    page = models[-limit:] if before and not after else models[:limit]
    return {
        "data": [show_model(model) for model in page],
        "has_more": len(models) > len(page),
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
    }


def show_model(model: ListedModel) -> Json:
    """Make Anthropic's model object, null where nothing is known."""
    created = datetime.fromtimestamp(model.created, UTC)
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "capabilities": None,
        "max_input_tokens": model.max_input_tokens,
        "max_tokens": model.max_output_tokens,
        "line": None,
        "deprecated_at": None,
        "retires_at": None,
    }


def _read_limit(values: Sequence[str] | None) -> int:
    if not values:
        return DEFAULT_PAGE
    if not re.fullmatch("[0-9]{1,4}", values[0]) or not 1 <= int(values[0]) <= MAX_PAGE:
        raise BadRequest(f"limit: expected a number from 1 to {MAX_PAGE}.", param="limit")
    return int(values[0])


def _find(models: Sequence[ListedModel], name: str, model_id: str) -> int:
    for index, model in enumerate(models):
        if model.id == model_id:
            return index
    raise BadRequest(f"{name}: there is no such model in the list.", param=name)
