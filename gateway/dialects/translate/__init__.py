"""Translations: callers of one dialect over providers of another.

chat_over_messages_request  chat_over_messages_conversation  chat_over_messages_reply
messages_over_chat_request  messages_over_chat_conversation  messages_over_chat_reply
pivot         code shared by translations from chat callers, and by those to chat upstreams
first_choice  the part of a chat reply that the translations read, in order
earlier       repairs of earlier turns that other vendors would refuse
"""
