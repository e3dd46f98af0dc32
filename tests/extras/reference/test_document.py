"""`GET /openapi.json`, and api.md, which is made of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from gateway.api.state import Gateway
from gateway.dialects.wire.records import Json
from gateway.extras.reference.document import make_document
from gateway.extras.reference.pages import write_page
from gateway.extras.reference.serving import list_routes
from tests.documents import find_part
from tests.extras.reference.fits import IS_WHOLE
from tests.support.served import open_served

MARKED: Final = "<!-- api -->\n{}\n<!-- /api -->"


def make(gateway: Gateway) -> Json:
    return make_document(list_routes(gateway))


async def test_the_reference_is_served_to_everybody(tmp_path: Path) -> None:
    async with open_served(tmp_path, server='public_url = "https://llm.example.com"') as served:
        reply = await served.send("GET", "/openapi.json")
        assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
        servers = [{"url": "https://llm.example.com"}]
        assert reply.json == {**make(served.gateway), "servers": servers}
        assert (await served.send("HEAD", "/openapi.json")).status == 200


@pytest.mark.slow
async def test_the_reference_is_valid(tmp_path: Path) -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    async with open_served(tmp_path) as served:
        validator.OpenAPIV31SpecValidator(make(served.gateway)).validate()


async def test_the_page_is_the_reference(tmp_path: Path) -> None:
    """`WRITE_REFERENCE=1 python -m pytest tests/extras/reference` writes it anew."""
    async with open_served(tmp_path) as served:
        document = make(served.gateway)
    made = write_page(document)
    path, page = find_part("api")
    if "WRITE_REFERENCE" in os.environ:
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(MARKED.format(page), MARKED.format(made)), encoding="utf-8")
    calls = [line for line in made.splitlines() if line.startswith("### ")]
    assert {*calls} <= {*page.splitlines()}
    if IS_WHOLE:
        assert page == made
