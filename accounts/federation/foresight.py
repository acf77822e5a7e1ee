"""What a sign-in with an identity would do here, told without doing it: for staff who try a provider."""

import enum
from typing import NamedTuple
from uuid import UUID

from accounts.errors import InvalidCredentials
from accounts.federation import queries, units
from accounts.federation.kinds.kind import UpstreamPerson
from accounts.federation.models import Identity, UpstreamProvider
from accounts.federation.rules import Holder, Step, next_step
from accounts.privacy import terms
from accounts.users import queries as user_queries
from accounts.users.models import User


class Would(enum.StrEnum):
    """What a sign-in would do."""

    SIGN_IN = "sign_in"
    ASK_FACTOR = "ask_factor"
    BE_REFUSED = "be_refused"  # the account cannot sign in
    CREATE = "create"
    ACCEPT_TERMS = "accept_terms"
    LINK = "link"
    SIGN_IN_FIRST = "sign_in_first"
    SIGN_UP_FIRST = "sign_up_first"


_OF_STEP = {
    Step.ACCEPT_TERMS: Would.ACCEPT_TERMS,
    Step.SIGN_IN_FIRST: Would.SIGN_IN_FIRST,
    Step.SIGN_UP_FIRST: Would.SIGN_UP_FIRST,
}


class Foreseen(NamedTuple):
    """What a sign-in would do, and to which account, if there is one."""

    would: Would
    user_id: UUID | None = None


def foreseen(provider: UpstreamProvider, person: UpstreamPerson, *, with_second_factor: bool) -> Foreseen:
    """Return what ``units.resolve`` and the sign-in behind it would do now; reads only. At most five queries.

    Args:
        provider: The provider, which need not be enabled.
        person: What it said.
        with_second_factor: Whether what it said counts as a second factor.
    """
    known = queries.known(person.issuer, person.subject)
    if known is not None:
        return _of_account(known.user_id, with_second_factor=with_second_factor)
    told, key = units.told_by(provider, person)
    holder = User.objects.filter(email_key=key).first() if told.is_verified else None
    held = Holder(holder.pk, holder.email_verified_at is not None and holder.is_active) if holder else None
    step = next_step(told, held)
    if step is Step.LINK and holder is not None:
        if Identity.objects.filter(user=holder, provider=provider).exists():
            return Foreseen(Would.SIGN_IN_FIRST, holder.pk)
        after = _of_account(holder.pk, with_second_factor=with_second_factor)
        return after if after.would is Would.BE_REFUSED else Foreseen(Would.LINK, holder.pk)
    if step is Step.CREATE:
        return Foreseen(Would.ACCEPT_TERMS if terms.is_asked() else Would.CREATE)
    return Foreseen(_OF_STEP[step], holder.pk if holder else None)


def _of_account(user_id: UUID, *, with_second_factor: bool) -> Foreseen:
    """Return what becomes of a sign-in to an account that is there."""
    account = user_queries.credentials_of_id(user_id)
    try:
        usable = units.require_usable(account)
    except InvalidCredentials:
        return Foreseen(Would.BE_REFUSED, user_id)
    if usable.must_change_password:
        return Foreseen(Would.BE_REFUSED, user_id)
    asks = bool(usable.methods) and not with_second_factor
    return Foreseen(Would.ASK_FACTOR if asks else Would.SIGN_IN, user_id)
