"""Claude at Google, beside its keys."""

from __future__ import annotations

from tests.support.extras import need_extra
from tests.support.records import make_provider


@need_extra("summary")
async def test_who_has_no_list_is_not_asked() -> None:
    """Google has none of what others made; nothing listens at this address."""
    from gateway.extras.summary.model_list import look_at

    google = make_provider(api_keys=("a-key",), base_url="http://127.0.0.1:9/v1", dialect="vertex")
    found = await look_at(google, ["small"])
    assert (found.verdict, found.is_usable) == ("no_list", True)
