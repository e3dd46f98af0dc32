"""The parts that all dialects share.

base             the seams: caller, upstream
pipelines        the seams of a reply under way: what reads it, what writes it, the two as one
records          what crosses them: requests, payloads, replies
sse              server-sent events as bytes, whole ones out of any slicing
stream           the part that all streams share, and translated streams
passing          streams between equal dialects
templates        events cut at their texts, which pass without a look inside
bounds           bounds on the size of JSON, counted before it is parsed
jsonbytes        tolerant JSON, edits that leave all other bytes alone, replies without the provider's bill
halves           halves of characters in what models write, mended
seals            what carries a provider's state to it from turn to turn, through any caller
call_ids         ids of tool calls: unique for callers, and as each provider takes them back
customs          custom tools as functions, where a provider has no others
billed           what changes the provider's bill
known            which fields callers may state, in which spelling, and which may hold files
names            other spellings of a name, and their refusal
fields           checks of a request's fields and files, and typed access to them
failures         errors of upstreams, mapped for the caller
kinds            what errors of upstreams mean, and how each vendor tells it
usage            usage objects in OpenAI's shape and its variants
provider_bill    the provider's bill and its calls of tools in a usage, read
"""
