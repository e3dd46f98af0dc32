"""Scripted vendors, one for each habit: each refuses what the real one refuses, in its words."""

from __future__ import annotations

from typing import Final

from tests.agents.vendors.base import Vendor
from tests.agents.vendors.claude import CLAUDES
from tests.agents.vendors.forgetful import FORGETFUL
from tests.agents.vendors.openai import OPENAI_RESPONSES
from tests.agents.vendors.openai_chat import OPENAI_CHAT
from tests.agents.vendors.thinkers import THINKERS

VENDORS: Final[dict[str, Vendor]] = {
    vendor.name: vendor
    for vendor in (OPENAI_RESPONSES, OPENAI_CHAT, *CLAUDES, *THINKERS, *FORGETFUL)
}
