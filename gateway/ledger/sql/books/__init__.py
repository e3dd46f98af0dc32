"""The operator's books: each module implements one part over one shared connection.

books     the parts together
database  the shared connection: reading, changing, noting events
accounts  keys  budgets  codes  entries  calls  usage  signins  tokens  events  alerts  observations
replays   the parts
call_search  the statements that search calls
"""
