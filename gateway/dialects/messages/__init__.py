"""The messages dialect (Anthropic's).

arguments arguments of a call as the input of a tool
caller    what callers send, the errors they get, and typed access to a request
models    the list of models, in pages
upstream  how providers are asked, and their JSON replies
reader    replies and events read, for the stream that passes and for translations
stream    the stream that passes
history   earlier turns as Anthropic takes them
usage     what a reply used, and the text to estimate it from
"""

from __future__ import annotations

from gateway.dialects.messages.arguments import read_arguments as read_arguments
from gateway.dialects.messages.arguments import read_input as read_input
from gateway.dialects.messages.arguments import wrap_arguments as wrap_arguments
from gateway.dialects.messages.caller import MarkedField as MarkedField
from gateway.dialects.messages.caller import MessagesCaller as MessagesCaller
from gateway.dialects.messages.caller import MessagesField as MessagesField
from gateway.dialects.messages.caller import is_default as is_default
from gateway.dialects.messages.history import THINKING as THINKING
from gateway.dialects.messages.history import may_think as may_think
from gateway.dialects.messages.history import maybe_thinking as maybe_thinking
from gateway.dialects.messages.history import shape_id as shape_id
from gateway.dialects.messages.stream import STOP as STOP
from gateway.dialects.messages.upstream import MessagesUpstream as MessagesUpstream
from gateway.dialects.messages.upstream import dump_arguments as dump_arguments
from gateway.dialects.messages.upstream import edit_count as edit_count
from gateway.dialects.messages.upstream import read_blocks as read_blocks
