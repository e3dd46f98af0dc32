"""The operator's books: each module implements one part over one shared connection.

books     the parts together, repeated requests, the audit and the backup
database  the shared connection: reading, changing, noting events
accounts  keys  budgets  codes  entries  calls  usage  signins  tokens  events  alerts   the parts
call_search  the statements that search calls
"""
