"""The wire formats that callers and providers speak: bytes in, bytes out, and no I/O.

    base        the seams: caller, upstream, translation, pipeline
    records     what crosses them: requests, payloads, replies
    exchanges   the tables of dialects and translations, and their product
    composed    two translations in a row, where there is no direct one
    refused     the caller's name of what the second of them refuses
    wire/       what all dialects share: events, streams, JSON at the byte level, fields, errors
    chat/  messages/  responses/                a folder per dialect
    chat_over_messages/  chat_over_responses/   a folder per translation, caller over upstream
    messages_over_chat/  responses_over_chat/
    embeddings/ a surface beside the dialects, which chat and responses providers serve

A new dialect is a folder and a row in the tables of callers and upstreams in `exchanges`; a new pair is
a folder and a row in the table of translations. Other code stays as it is.
Imports are the leaves alone (`errors`, `money`, `prices`, `usage`), neither asyncio nor aiohttp. Other folders
import from here. README.md has the facts of the formats that the code relies on.
"""

from __future__ import annotations

from gateway.dialects.base import Caller as Caller
from gateway.dialects.base import Pipeline as Pipeline
from gateway.dialects.base import Translation as Translation
from gateway.dialects.base import Upstream as Upstream
from gateway.dialects.exchanges import CALLERS as CALLERS
from gateway.dialects.exchanges import COUNT_TOKENS as COUNT_TOKENS
from gateway.dialects.exchanges import COUNTERS as COUNTERS
from gateway.dialects.exchanges import DEMO as DEMO
from gateway.dialects.exchanges import EMBEDDERS as EMBEDDERS
from gateway.dialects.exchanges import EMBEDDINGS as EMBEDDINGS
from gateway.dialects.exchanges import EXCHANGES as EXCHANGES
from gateway.dialects.exchanges import TRANSLATIONS as TRANSLATIONS
from gateway.dialects.exchanges import UPSTREAMS as UPSTREAMS
from gateway.dialects.exchanges import Counter as Counter
from gateway.dialects.exchanges import Exchange as Exchange
from gateway.dialects.exchanges import Exchanges as Exchanges
from gateway.dialects.exchanges import make_exchanges as make_exchanges
from gateway.dialects.messages import edit_count as edit_count
from gateway.dialects.records import CompletionRequest as CompletionRequest
from gateway.dialects.records import History as History
from gateway.dialects.records import Json as Json
from gateway.dialects.records import ListedModel as ListedModel
from gateway.dialects.records import MaxTokensField as MaxTokensField
from gateway.dialects.records import ModelKind as ModelKind
from gateway.dialects.records import Payload as Payload
from gateway.dialects.records import Query as Query
from gateway.dialects.records import RateLimit as RateLimit
from gateway.dialects.records import Reasoning as Reasoning
from gateway.dialects.records import Reply as Reply
from gateway.dialects.records import ReplyContext as ReplyContext
from gateway.dialects.records import Taken as Taken
from gateway.dialects.records import Target as Target
from gateway.dialects.wire import BILLED as BILLED
from gateway.dialects.wire import BILLED_NAMES as BILLED_NAMES
from gateway.dialects.wire import MAX_ELEMENTS as MAX_ELEMENTS
from gateway.dialects.wire import MAX_REPLY_BYTES as MAX_REPLY_BYTES
from gateway.dialects.wire import bound_elements as bound_elements
from gateway.dialects.wire import count_elements as count_elements
from gateway.dialects.wire import dump_request as dump_request
from gateway.dialects.wire import dumps_lenient as dumps_lenient
from gateway.dialects.wire import has_more_elements as has_more_elements
from gateway.dialects.wire import limit_elements as limit_elements
from gateway.dialects.wire import looks_like_json as looks_like_json
from gateway.dialects.wire import map_status as map_status
from gateway.dialects.wire import refuse_elements as refuse_elements
from gateway.dialects.wire import tag_provider as tag_provider
