"""The pages that a text is based on: chat's annotations. Their places count from its first character."""

from __future__ import annotations

from gateway.dialects.records import Json
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text


def read_sources(message: Json) -> list[Json]:
    """Read the pages that a message or delta names; files are left out."""
    given = (one for one in get_list(message, "annotations") if isinstance(one, dict))
    return [source for one in given if (source := maybe_source(get_object(one, "url_citation")))]


def maybe_source(held: Json) -> Json | None:
    """Read a page; None for one without an address, or a place in the text."""
    match held:
        case {"start_index": int(start), "end_index": int(end), "url": str(url)}:
            page = {"url": url, "title": get_text(held, "title")}
            return {"start_index": start, "end_index": end, **page}
        case _:
            return None


def move_source(source: Json, chars: int) -> Json:
    """Move the place of a page by `chars`, but not in front of the text."""
    places = {key: max(source[key] + chars, 0) for key in ("start_index", "end_index")}
    return {**source, **places}


def make_annotation(source: Json) -> Json:
    return {"type": "url_citation", "url_citation": source}
