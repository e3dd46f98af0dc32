"""Scripted vendors, one for each habit: each refuses what the real one refuses, in its words."""

from __future__ import annotations

from typing import Final

from tests.agents.vendors.base import Vendor
from tests.agents.vendors.chat import CHATTERS
from tests.agents.vendors.claude import CLAUDES
from tests.agents.vendors.openai import OPENAI_RESPONSES
from tests.support.formats import UPSTREAMS

VENDORS: Final[dict[str, Vendor]] = {
    vendor.name: vendor
    for vendor in (OPENAI_RESPONSES, *CLAUDES, *CHATTERS)
    if vendor.dialect in UPSTREAMS
}
