"""A provider of payment pages: what it has to offer, and its errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from gateway.extras.cards.records import Fee, OrderView, Payment, Reversal


class ProviderUnavailable(Exception):
    """The provider did not answer, or failed. What became of the request is unknown."""


class ProviderRefused(Exception):
    """The provider refuses the request, and would again. The text has no secret."""


class BadSignature(Exception):
    """The message is not the provider's, or too old."""


class BadMessage(Exception):
    """The message is the provider's, but not as its documentation says. The text says what is odd."""


class PaymentProvider(Protocol):
    """A provider of payment pages. All but `find_url` and `read_message` wait for the network: call them in a thread.

    They raise ProviderUnavailable and ProviderRefused.
    """

    name: str
    """The actor in events."""

    def make_page(self, order: OrderView, product: str, billing_url: str) -> tuple[str, str]:
        """Make the order's payment page, or find it again; return its id and its address. `product` is what is sold.

        People come back to `billing_url`; if they paid, with the order's id as `?order=`.
        """

    def look_up(self, session_id: str) -> Payment:
        """Return the state of a payment page."""

    def find_page(self, payment_id: str) -> Payment | None:
        """Return the payment page by which a payment was made."""

    def find_fee(self, payment_id: str) -> Fee | None:
        """Return the provider's fee for a payment; None if it is not known yet."""

    def find_reversals(self, now_ms: int) -> Mapping[str, Iterator[list[Reversal | BadMessage]]]:
        """Return lists by name, each in pages: refunds and disputes of the last weeks, as they are now.

        Each call returns all of those weeks, because a refund may fail, and a dispute end, long after it
        began. A `BadMessage` stands for an object that cannot be read.
        """

    def find_receipt(self, session_id: str) -> str | None:
        """Return the address of the receipt; None if there is none yet."""

    def find_url(self, order: OrderView) -> str | None:
        """Return the address at which operators see an order's payment; sends no request."""

    def read_message(self, body: bytes, signature: str) -> Payment | Reversal | None:
        """Read a message whose signature is right; None if it is about something else.

        Raises BadSignature, and parses nothing then, or BadMessage.
        """
