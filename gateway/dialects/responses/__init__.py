"""The Responses dialect (OpenAI's), without the state that OpenAI keeps.

caller    what callers send, and the errors they get
upstream  how providers are asked, and their JSON replies
reader    replies and events read, for the stream that passes and for translations
stream    the stream that passes
replay    a JSON reply as a stream
sealed    what only the provider who made it can read
stripped  tools that have no price, left out
usage     what a reply used, and the text to estimate it from
"""

from __future__ import annotations

from gateway.dialects.responses.caller import ID_PREFIX as ID_PREFIX
from gateway.dialects.responses.caller import ResponsesCaller as ResponsesCaller
from gateway.dialects.responses.sealed import SUMMARIES as SUMMARIES
from gateway.dialects.responses.sealed import maybe_reasoning as maybe_reasoning
from gateway.dialects.responses.sealed import refuse_summary as refuse_summary
from gateway.dialects.responses.upstream import ResponsesUpstream as ResponsesUpstream
from gateway.dialects.responses.usage import make_usage as make_usage
from gateway.dialects.responses.usage import read_items as read_items
