"""The application: which models are routed, by which forwarder, and what it serves."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.api.state import make_routes
from gateway.upstream.demo import DemoForwarder
from gateway.upstream.forwarder import HttpForwarder
from tests.support.settings import load

CONFIG: Final = """
[providers.demo]
dialect = "demo"
[providers.vendor]
dialect = "chat"
base_url = "https://api.example.com/v1"
[providers.off]
dialect = "chat"
base_url = "https://off.example.com/v1"
api_key = "env:NO_SUCH_API_KEY"
[providers.unused]
dialect = "messages"
base_url = "https://unused.example.com/v1"
[models.echo]
routes = ["demo/echo", "off/x"]
price = "free"
[models.large]
routes = ["vendor/large"]
price = "free"
[models.gone]
routes = ["off/gone"]
price = "free"
"""


def test_models_that_are_on_are_routed_by_the_providers_they_use(tmp_path: Path) -> None:
    routes = make_routes(load(tmp_path, CONFIG))
    assert set(routes.models) == {"echo", "large"}
    forwarders = {name: type(one.forwarder) for name, one in routes.providers.items()}
    assert forwarders == {"demo": DemoForwarder, "vendor": HttpForwarder}
    routes.close()


def test_providers_with_the_same_settings_keep_their_state(tmp_path: Path) -> None:
    """With it their connections, breakers and pauses."""
    before = make_routes(load(tmp_path, CONFIG))
    after = make_routes(
        load(tmp_path, CONFIG.replace("api.example.com", "new.example.com")), before=before
    )
    assert after.providers["demo"] is before.providers["demo"]
    assert after.providers["vendor"] is not before.providers["vendor"]
    again = make_routes(load(tmp_path, CONFIG), before=before)
    assert again.providers == before.providers
    before.close()
    after.close()
