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
