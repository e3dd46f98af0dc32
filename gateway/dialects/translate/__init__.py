"""Translations: callers of one dialect over providers of another.

chat_over_messages_request  chat_over_messages_conversation  chat_over_messages_reply
messages_over_chat_request  messages_over_chat_conversation  messages_over_chat_reply
pivot         what two translations share: from chat callers, to chat upstreams
first_choice  what of a chat reply the translations read, in order
earlier       earlier turns that other vendors would refuse: as text, and calls with their results
roots         schemas of tools with one plain object as root
schemas       schemas that bind, as vendors take them
"""
