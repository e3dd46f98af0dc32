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
