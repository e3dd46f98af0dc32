"""The parts that all dialects share.

sse              server-sent events as bytes, whole ones out of any slicing
stream           the part that all streams share, and translated streams
passing          streams between equal dialects, and templates of their events
numbered         templates of events that carry a number
collected        replies that are read whole before any of them goes out
elements         a bound on the values in a JSON text, without parsing it
jsonbytes        tolerant JSON, and edits that leave all other bytes alone
billed           what changes the provider's bill
data_urls        files that a URL holds
seals            what a provider wants back, carried by callers of other dialects
fields           checks of a request's fields, and typed access to them
openai_caller    what callers of OpenAI's APIs share
upstream_errors  errors of upstreams, mapped to errors for the caller
usage            usage objects in OpenAI's shape and its variants, and the provider's bill
"""

from __future__ import annotations

from gateway.dialects.wire import fields as fields
from gateway.dialects.wire.billed import ANY_TOOL as ANY_TOOL
from gateway.dialects.wire.billed import BILLED as BILLED
from gateway.dialects.wire.billed import BILLED_NAMES as BILLED_NAMES
from gateway.dialects.wire.billed import check_audio as check_audio
from gateway.dialects.wire.billed import check_fields as check_fields
from gateway.dialects.wire.billed import check_state as check_state
from gateway.dialects.wire.billed import check_tools as check_tools
from gateway.dialects.wire.billed import is_open as is_open
from gateway.dialects.wire.billed import list_families as list_families
from gateway.dialects.wire.billed import read_asked as read_asked
from gateway.dialects.wire.billed import refuse as refuse
from gateway.dialects.wire.collected import MAX_REPLY_BYTES as MAX_REPLY_BYTES
from gateway.dialects.wire.collected import MAX_REPLY_ELEMENTS as MAX_REPLY_ELEMENTS
from gateway.dialects.wire.collected import CollectedReply as CollectedReply
from gateway.dialects.wire.collected import ReplayedReply as ReplayedReply
from gateway.dialects.wire.collected import looks_like_json as looks_like_json
from gateway.dialects.wire.data_urls import is_link as is_link
from gateway.dialects.wire.data_urls import maybe_read_text as maybe_read_text
from gateway.dialects.wire.data_urls import split_data_url as split_data_url
from gateway.dialects.wire.elements import MAX_ELEMENTS as MAX_ELEMENTS
from gateway.dialects.wire.elements import bound_elements as bound_elements
from gateway.dialects.wire.elements import count_elements as count_elements
from gateway.dialects.wire.elements import has_more_elements as has_more_elements
from gateway.dialects.wire.elements import limit_elements as limit_elements
from gateway.dialects.wire.elements import refuse_elements as refuse_elements
from gateway.dialects.wire.fields import Field as Field
from gateway.dialects.wire.fields import dump_request as dump_request
from gateway.dialects.wire.fields import too_deep as too_deep
from gateway.dialects.wire.jsonbytes import dumps_lenient as dumps_lenient
from gateway.dialects.wire.jsonbytes import get_list as get_list
from gateway.dialects.wire.jsonbytes import get_object as get_object
from gateway.dialects.wire.jsonbytes import get_text as get_text
from gateway.dialects.wire.jsonbytes import maybe_loads as maybe_loads
from gateway.dialects.wire.jsonbytes import maybe_replace as maybe_replace
from gateway.dialects.wire.jsonbytes import maybe_splice as maybe_splice
from gateway.dialects.wire.numbered import NumberedTemplate as NumberedTemplate
from gateway.dialects.wire.numbered import maybe_learn_numbered as maybe_learn_numbered
from gateway.dialects.wire.openai_caller import OpenAICaller as OpenAICaller
from gateway.dialects.wire.openai_caller import write_limits as write_limits
from gateway.dialects.wire.passing import PROBE as PROBE
from gateway.dialects.wire.passing import PROBE_BYTES as PROBE_BYTES
from gateway.dialects.wire.passing import PassingStream as PassingStream
from gateway.dialects.wire.passing import maybe_cut as maybe_cut
from gateway.dialects.wire.seals import ANY_TAG as ANY_TAG
from gateway.dialects.wire.seals import is_ours as is_ours
from gateway.dialects.wire.seals import join_seals as join_seals
from gateway.dialects.wire.seals import open_seals as open_seals
from gateway.dialects.wire.seals import seal as seal
from gateway.dialects.wire.seals import seal_id as seal_id
from gateway.dialects.wire.seals import split_id as split_id
from gateway.dialects.wire.seals import tag_provider as tag_provider
from gateway.dialects.wire.sse import Framer as Framer
from gateway.dialects.wire.sse import is_canonical as is_canonical
from gateway.dialects.wire.sse import render_event as render_event
from gateway.dialects.wire.stream import MAX_TRANSLATED_EVENT_BYTES as MAX_TRANSLATED_EVENT_BYTES
from gateway.dialects.wire.stream import PICTURE_BYTES as PICTURE_BYTES
from gateway.dialects.wire.stream import TranslatedStream as TranslatedStream
from gateway.dialects.wire.stream import read_object as read_object
from gateway.dialects.wire.upstream_errors import make_failure as make_failure
from gateway.dialects.wire.upstream_errors import map_status as map_status
from gateway.dialects.wire.upstream_errors import read_error as read_error
from gateway.dialects.wire.usage import hide_bill as hide_bill
from gateway.dialects.wire.usage import maybe_find_end_usage as maybe_find_end_usage
from gateway.dialects.wire.usage import read_bill_nano as read_bill_nano
from gateway.dialects.wire.usage import read_counts as read_counts
from gateway.dialects.wire.usage import read_openai_usage as read_openai_usage
from gateway.dialects.wire.usage import read_tool_calls as read_tool_calls
