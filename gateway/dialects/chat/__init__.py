"""The chat completions dialect (OpenAI's).

caller    what callers send, and the errors they get
upstream  how providers are asked, and their JSON replies
reader    replies and chunks read, for the stream that passes and for translations
stream    the stream that passes
writer    replies and streams that are written from another dialect's
repair    chunks that break the schema, made right
state     what upstreams want back with a turn
results   results of tools as messages
search    the search that a provider runs
sources   the pages that a text is based on
usage     what a reply used, and the text to estimate it from
"""

from __future__ import annotations

from gateway.dialects.chat.caller import ChatCaller as ChatCaller
from gateway.dialects.chat.reader import check_finish as check_finish
from gateway.dialects.chat.reader import read_arguments as read_arguments
from gateway.dialects.chat.reader import read_choice as read_choice
from gateway.dialects.chat.reader import read_fragment as read_fragment
from gateway.dialects.chat.results import BLOCK_SEPARATOR as BLOCK_SEPARATOR
from gateway.dialects.chat.results import make_result as make_result
from gateway.dialects.chat.results import pack_parts as pack_parts
from gateway.dialects.chat.search import SEARCH_CHOICE as SEARCH_CHOICE
from gateway.dialects.chat.search import SEARCH_OPTIONS as SEARCH_OPTIONS
from gateway.dialects.chat.search import add_search as add_search
from gateway.dialects.chat.search import is_search as is_search
from gateway.dialects.chat.search import make_search as make_search
from gateway.dialects.chat.search import open_fields as open_fields
from gateway.dialects.chat.search import read_location as read_location
from gateway.dialects.chat.sources import make_annotation as make_annotation
from gateway.dialects.chat.sources import maybe_source as maybe_source
from gateway.dialects.chat.sources import move_source as move_source
from gateway.dialects.chat.sources import read_sources as read_sources
from gateway.dialects.chat.state import STATE as STATE
from gateway.dialects.chat.state import StateCollector as StateCollector
from gateway.dialects.chat.state import add_state as add_state
from gateway.dialects.chat.state import open_history as open_history
from gateway.dialects.chat.state import read_state as read_state
from gateway.dialects.chat.stream import DONE as DONE
from gateway.dialects.chat.stream import ID_PREFIX as ID_PREFIX
from gateway.dialects.chat.upstream import ChatUpstream as ChatUpstream
from gateway.dialects.chat.usage import list_media as list_media
from gateway.dialects.chat.usage import make_chat_usage as make_chat_usage
from gateway.dialects.chat.usage import make_translated_usage as make_translated_usage
from gateway.dialects.chat.usage import read_content as read_content
from gateway.dialects.chat.usage import read_reasoning as read_reasoning
from gateway.dialects.chat.writer import ARGUMENTS as ARGUMENTS
from gateway.dialects.chat.writer import NO_ARGUMENTS as NO_ARGUMENTS
from gateway.dialects.chat.writer import ChoiceWriter as ChoiceWriter
from gateway.dialects.chat.writer import ToolKind as ToolKind
from gateway.dialects.chat.writer import carry_state as carry_state
from gateway.dialects.chat.writer import make_completion as make_completion
from gateway.dialects.chat.writer import make_message as make_message
from gateway.dialects.chat.writer import uses_functions as uses_functions
