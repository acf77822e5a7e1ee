"""Which counts a try to prove something secret stands under: the shares of a hundred failures, and their keys.

The keys are MACs (``rate_limits.mac``); the counts themselves are in ``ironauth.infrastructure.ratelimit.lockout``.
"""

from typing import Final, NamedTuple
from uuid import UUID

from accounts import email_address as emails
from accounts.lockout import rate_limits
from accounts.lockout.rate_limits import SIGN_IN, mac
from ironauth.infrastructure.http.client_address import client_network
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.ratelimit.lockout import Count
from ironauth.infrastructure.ratelimit.window_store import RateLimitHit

#: Consecutive failures of one password, by who tries: ``MAX_FAILURES`` together. Enough for everybody's typing errors
#: with room for some waits; strangers, who are the most, reach their end after two weeks without a pause.
STRANGERS: Final = 40
KNOWN_ADDRESSES: Final = 20
KNOWN_BROWSERS: Final = 20
SIGNED_IN: Final = 20


class LockoutKeys(NamedTuple):
    """What is asked about a try, in MACs. ``known``: devices it comes from, if they are known.

    ``devices`` and ``address``: their keys. ``forgotten``: names all the devices of the account.
    """

    rule: str
    account: Count
    browsers: Count | None = None
    addresses: Count | None = None
    devices: tuple[str, ...] = ()
    address: tuple[str, ...] = ()
    asked: tuple[RateLimitHit, ...] = ()
    forgotten: str = ""

    @property
    def known(self) -> list[tuple[str, Count]]:
        """The devices it would come from, and where their failures are counted; browsers first."""
        found = [(key, self.browsers) for key in self.devices] + [(key, self.addresses) for key in self.address]
        return [(key, count) for key, count in found if count]

    @property
    def counts(self) -> tuple[str, ...]:
        """The keys of all that counts wrong passwords here."""
        return tuple(count.key for count in (self.account, self.browsers, self.addresses) if count)


def sign_in(email: str, context: ClientContext) -> LockoutKeys:
    """Return what is asked about a try to sign in with this address, typed and not yet judged."""
    account = mac("account", emails.lookup_key(email) or email)  # what is no address has a count of its own too
    network = client_network(context.address)
    return LockoutKeys(
        rule=SIGN_IN.name,
        account=Count(account, STRANGERS),
        browsers=Count(mac("account's known browsers", account), KNOWN_BROWSERS),
        addresses=Count(mac("account's known addresses", account), KNOWN_ADDRESSES),
        devices=device_key(account, context.device),
        address=(mac("account at address", account, network),) if network else (),
        asked=rate_limits.client_questions(SIGN_IN, context.address),
        forgotten=mac("account's devices forgotten", account),
    )


def device_key(account: str, device: str) -> tuple[str, ...]:
    """Return the key of the account (given by its own) on the device with this cookie; none without a cookie."""
    return (mac("account on device", account, device),) if device else ()


def confirmation(user_id: UUID) -> LockoutKeys:
    """Return what is asked about the password of somebody who is signed in."""
    return LockoutKeys("confirmation", Count(mac("confirmation", str(user_id)), SIGNED_IN))


def second_factor(user_id: UUID) -> LockoutKeys:
    """Return what is asked about the second factor of somebody whose password was right."""
    return LockoutKeys("second_factor", Count(mac("second factor", str(user_id))))
