"""The chat completions dialect (OpenAI's).

caller    what callers send, and the errors they get
upstream  how providers are asked, and their JSON replies
stream    replies and chunks read, and the stream that passes
repair    chunks that break the schema, made right
usage     what a reply used, and the text to estimate it from
state     what upstreams want back with a turn, and the seals in which all callers carry it
writer    for translations: replies and streams written, results of tools, web search and sources
"""
