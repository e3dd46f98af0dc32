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
