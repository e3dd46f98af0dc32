"""Accounts, keys, holds and charges. No other folder knows how they are stored.

    base             the contract of a serving ledger, its records and errors
    errors           errors of a ledger as a whole
    records          records and errors that several parts of the books share
    key_records  budget_records  code_records  call_records  token_records  usage_records
                     those of one part each
    alert_records    alerts, which are queued until they are delivered
    receipts         the receipt of a request, its JSON, and the words for how it ended
    observations     refusals and calls to providers, which are counted beside the books
    periods          days, weeks and months, for budgets
    rates            the limits of a request, and the refusals of what exceeds them
    locations        where a ledger is: a file, or the address of a database
    opening          opens, checks and makes the ledger of a location
    serving/         decisions in memory and one writer, whichever database there is
    sql/             statements that databases share; `sql.books`, the operator's books made of them
    sqlite/          a ledger in one SQLite file, for one serving process
    postgres/        a ledger in PostgreSQL, for several

README.md has the rules of both, their tables, and what is done in which order.

The life of money:

    1. `hold` checks the balance and sets the expected cost aside, in one synchronous step.
    2. `confirm` has it in force for all processes before the request goes to a provider.
    3. The request's row is committed before the caller's first byte (`wait_admitted`).
    4. `settle` queues the charge, or the void if nothing is owed; the hold is raised to it.
    5. The charge is committed: one entry per request, however often `settle` is called.
    6. Balances in memory are assigned from the commit, and the hold is dropped.
    7. Only then the caller gets the last bytes of the reply.
    8. If commits fail, nobody is admitted; charges of delivered streams wait in the queue.
    9. A crash interrupts what is pending: nothing is charged, nothing is held.
    10. The operator credits and corrects through the books, in entries of the same table.
    11. The audit proves that each balance is the sum of its entries.

A key's cap and budget are checked by the same hold and added to by the same commit.

Other folders import from here, never from the modules. May import: the leaves.
"""

from __future__ import annotations

from gateway.ledger.alert_records import Alert as Alert
from gateway.ledger.alert_records import AlertKind as AlertKind
from gateway.ledger.alert_records import AlertState as AlertState
from gateway.ledger.alert_records import AlertView as AlertView
from gateway.ledger.alert_records import Channel as Channel
from gateway.ledger.alert_records import Due as Due
from gateway.ledger.alert_records import Hook as Hook
from gateway.ledger.alert_records import make_alert_id as make_alert_id
from gateway.ledger.alert_records import write_alert as write_alert
from gateway.ledger.base import COMMIT_SECONDS as COMMIT_SECONDS
from gateway.ledger.base import Account as Account
from gateway.ledger.base import Admission as Admission
from gateway.ledger.base import Hold as Hold
from gateway.ledger.base import Key as Key
from gateway.ledger.base import Ledger as Ledger
from gateway.ledger.base import Settlement as Settlement
from gateway.ledger.budget_records import Allowance as Allowance
from gateway.ledger.budget_records import Budget as Budget
from gateway.ledger.budget_records import BudgetChanges as BudgetChanges
from gateway.ledger.budget_records import BudgetStanding as BudgetStanding
from gateway.ledger.budget_records import BudgetView as BudgetView
from gateway.ledger.budget_records import Spending as Spending
from gateway.ledger.budget_records import refuse_spent as refuse_spent
from gateway.ledger.call_records import CallDetail as CallDetail
from gateway.ledger.call_records import CallFilter as CallFilter
from gateway.ledger.call_records import CallView as CallView
from gateway.ledger.call_records import OutcomeFilter as OutcomeFilter
from gateway.ledger.code_records import CodeStatus as CodeStatus
from gateway.ledger.code_records import CodeTerms as CodeTerms
from gateway.ledger.code_records import CodeView as CodeView
from gateway.ledger.code_records import InvalidCode as InvalidCode
from gateway.ledger.code_records import NewCodes as NewCodes
from gateway.ledger.errors import FilesLost as FilesLost
from gateway.ledger.errors import LedgerError as LedgerError
from gateway.ledger.errors import LedgerLocked as LedgerLocked
from gateway.ledger.errors import LedgerMismatch as LedgerMismatch
from gateway.ledger.errors import LedgerMissing as LedgerMissing
from gateway.ledger.key_records import LIMITS as LIMITS
from gateway.ledger.key_records import EndedKey as EndedKey
from gateway.ledger.key_records import KeyChanges as KeyChanges
from gateway.ledger.key_records import KeyStatus as KeyStatus
from gateway.ledger.key_records import KeyTerms as KeyTerms
from gateway.ledger.key_records import KeyView as KeyView
from gateway.ledger.key_records import NewKey as NewKey
from gateway.ledger.key_records import TermChanges as TermChanges
from gateway.ledger.key_records import Terms as Terms
from gateway.ledger.locations import DatabaseUrl as DatabaseUrl
from gateway.ledger.locations import Location as Location
from gateway.ledger.locations import read_database_url as read_database_url
from gateway.ledger.observations import CallSums as CallSums
from gateway.ledger.observations import RefusalView as RefusalView
from gateway.ledger.observations import UpstreamFailure as UpstreamFailure
from gateway.ledger.observations import UpstreamView as UpstreamView
from gateway.ledger.opening import check_ledger as check_ledger
from gateway.ledger.opening import find_server as find_server
from gateway.ledger.opening import make_ledger as make_ledger
from gateway.ledger.opening import open_books as open_books
from gateway.ledger.opening import open_ledger as open_ledger
from gateway.ledger.periods import Period as Period
from gateway.ledger.periods import Span as Span
from gateway.ledger.periods import find_span as find_span
from gateway.ledger.rates import Rate as Rate
from gateway.ledger.rates import refuse_concurrency as refuse_concurrency
from gateway.ledger.rates import refuse_requests as refuse_requests
from gateway.ledger.rates import refuse_tokens as refuse_tokens
from gateway.ledger.receipts import ENDINGS as ENDINGS
from gateway.ledger.receipts import Correction as Correction
from gateway.ledger.receipts import Outcome as Outcome
from gateway.ledger.receipts import Receipt as Receipt
from gateway.ledger.receipts import describe_receipt as describe_receipt
from gateway.ledger.records import CLI as CLI
from gateway.ledger.records import FIRST_START as FIRST_START
from gateway.ledger.records import HOLDER_IDLE_MS as HOLDER_IDLE_MS
from gateway.ledger.records import MAX_INTEGER as MAX_INTEGER
from gateway.ledger.records import OPERATOR_IDLE_MS as OPERATOR_IDLE_MS
from gateway.ledger.records import OPERATOR_SESSION_MS as OPERATOR_SESSION_MS
from gateway.ledger.records import SESSION_MS as SESSION_MS
from gateway.ledger.records import SYSTEM as SYSTEM
from gateway.ledger.records import AccountDetail as AccountDetail
from gateway.ledger.records import AccountOrder as AccountOrder
from gateway.ledger.records import AccountView as AccountView
from gateway.ledger.records import Actor as Actor
from gateway.ledger.records import AuditReport as AuditReport
from gateway.ledger.records import BadRecord as BadRecord
from gateway.ledger.records import Conflict as Conflict
from gateway.ledger.records import EntryFilter as EntryFilter
from gateway.ledger.records import EntryKind as EntryKind
from gateway.ledger.records import EntryView as EntryView
from gateway.ledger.records import EventView as EventView
from gateway.ledger.records import FailedBy as FailedBy
from gateway.ledger.records import InterruptedView as InterruptedView
from gateway.ledger.records import MoveRecord as MoveRecord
from gateway.ledger.records import NodeView as NodeView
from gateway.ledger.records import NotFound as NotFound
from gateway.ledger.records import OpenedBy as OpenedBy
from gateway.ledger.records import Opening as Opening
from gateway.ledger.records import OtherRequest as OtherRequest
from gateway.ledger.records import Refused as Refused
from gateway.ledger.records import RepeatableRequest as RepeatableRequest
from gateway.ledger.records import SessionView as SessionView
from gateway.ledger.records import StandingView as StandingView
from gateway.ledger.records import StoredReply as StoredReply
from gateway.ledger.records import StoredSecret as StoredSecret
from gateway.ledger.records import TotpView as TotpView
from gateway.ledger.sql.books.books import Books as Books
from gateway.ledger.token_records import SCRIPT_ACTOR as SCRIPT_ACTOR
from gateway.ledger.token_records import SCRIPT_PREFIX as SCRIPT_PREFIX
from gateway.ledger.token_records import NewToken as NewToken
from gateway.ledger.token_records import TokenRole as TokenRole
from gateway.ledger.token_records import TokenTerms as TokenTerms
from gateway.ledger.token_records import TokenView as TokenView
from gateway.ledger.usage_records import ChartUnit as ChartUnit
from gateway.ledger.usage_records import KeyLabel as KeyLabel
from gateway.ledger.usage_records import OverviewView as OverviewView
from gateway.ledger.usage_records import ProviderCosts as ProviderCosts
from gateway.ledger.usage_records import Spent as Spent
from gateway.ledger.usage_records import Usage as Usage
from gateway.ledger.usage_records import UsageFilter as UsageFilter
from gateway.ledger.usage_records import UsageGroup as UsageGroup
from gateway.ledger.usage_records import UsagePoint as UsagePoint
from gateway.ledger.usage_records import UsageReport as UsageReport
from gateway.ledger.usage_records import sum_costs as sum_costs
from gateway.ledger.usage_records import sum_usage as sum_usage
