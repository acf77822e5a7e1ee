"""Rate limits of everything but sign-ins: by client, by mailbox, by account.

A rule allows a number of times in any stretch of time (``ratelimit.window``). Sign-ins also have counts of their own,
in ``throttling``.

An answer tells the client of the rule, and of how many are left where every request counts. A count of wrong guesses
stays untold: it would tell a guesser when to pause. So do those of messages, whose answers are alike for all addresses.

A client is counted by ``client_network``: an IPv4 address, or the /64 of an IPv6 address. A rented /48 has 65,536 of
those, so the /48 is counted as well, at ten times the limit. The network is asked first: what it refuses is not counted
for the site.

The tables hold MACs under SECRET_KEY instead of addresses. A new SECRET_KEY resets every count.
"""

import math
import threading
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, NoReturn
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import CharField
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from accounts import email_address as emails
from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.durations import in_words
from ironauth.infrastructure.core.errors import Throttled
from ironauth.infrastructure.crypto.master_keys import keyed_mac
from ironauth.infrastructure.db.compiled import CompiledSelect, Param
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import client_network, client_site
from ironauth.infrastructure.ratelimit import window as sliding_window
from ironauth.infrastructure.ratelimit.window import Quota, RateLimitHit, Refusal, Slot, announce
from ironauth.infrastructure.telemetry.logs import get_logger

type MailKind = Literal[
    "reset", "verification", "sign-up", "sign-in", "confirmation", "change", "invitation"
]  # what is asked for, whatever is sent

#: What helps instead of waiting, by rule and kind of count. A wait that is too long to sit out has more to offer.
_REMEDIES: Final = {("second_factor", "account"): _("A passkey or a recovery code from this site signs in at once.")}
_LONG_WAIT_S: Final = 3_600
_LONG_REMEDIES: Final = dict.fromkeys(
    (("sign_in", "account"), ("confirmation", "account")), _("A new password by e-mail ends the wait.")
)
_KEY_CHARACTERS: Final = 32  # 128 bits in hexadecimal: no two subjects share a count


class Rule(NamedTuple):
    """At most so many (``setting`` names the number) in any ``window_s`` seconds for one of a kind.

    ``told``: what answers tell of it. A refusal tells the rule in any case. ``total``: the same for all together.
    """

    name: str
    setting: str
    window_s: int
    told: Literal["nothing", "rule", "left"] = "nothing"
    total: str = ""


#: Tries that were not right. 100 leave room for an office behind one address; guessing one password in 10,000
#: accounts from one address takes a day.
SIGN_IN: Final = Rule("sign_in", "IRONAUTH_THROTTLE_SIGNIN_FAILURES", 900)
#: Each costs a hash; 30 are a class of pupils.
SIGN_UP: Final = Rule("sign_up", "IRONAUTH_THROTTLE_SIGNUPS", 3_600, told="left")
#: Tokens and clients' secrets of 256 bits cannot be guessed: this ends a broken client's loop. Valid ones do not count.
REFRESH: Final = Rule("refresh", "IRONAUTH_THROTTLE_BAD_REFRESHES", 900)
CLIENT: Final = Rule("client", "IRONAUTH_THROTTLE_BAD_REFRESHES", 900)
#: Requests to authorize whose ``client_id`` names no client: each costs a look-up. Ids of clients are never counted.
UNKNOWN_CLIENT: Final = Rule("unknown_client", "IRONAUTH_THROTTLE_BAD_REFRESHES", 900)
#: Requests of OAuth clients without a secret that this server stores for a while, successful or not. Anybody can name
#: such a client, and each request is a row. Not counted: signing in where the browser brings the request itself.
PUBLIC_CLIENT: Final = Rule("public_client", "IRONAUTH_THROTTLE_BAD_REFRESHES", 900, told="left")
#: Signatures cannot be guessed either. Challenges are counted too: a page asks for one each time it is used.
PASSKEY: Final = Rule("passkey", "IRONAUTH_THROTTLE_PASSKEYS", 900, told="left")
#: Sign-ins sent to another provider: each is a row, and a request to the provider on return.
UPSTREAM: Final = Rule("upstream", "IRONAUTH_THROTTLE_PASSKEYS", 900)
REQUEST_URI: Final = Rule("request_uri", "IRONAUTH_THROTTLE_PASSKEYS", 900)  # each is a request to its application
#: Nor can recovery codes, but each costs a hash; as many as passwords, which cost the same. A count for each person
#: would let anybody who has the password keep the owner out.
RECOVERY_CODE: Final = Rule("recovery_code", "IRONAUTH_THROTTLE_SIGNIN_FAILURES", 900)
#: Codes of devices that people type: 20 to the power of 8, of which a few are good. Right ones are counted too, for a
#: guess must not be told from a code; by address and, once somebody has signed in, by person.
USER_CODE: Final = Rule("user_code", "IRONAUTH_THROTTLE_SIGNIN_FAILURES", 900)
#: The same for the tokens of messages; a whole office may click old links.
EMAIL_TOKEN: Final = Rule("email_token", "IRONAUTH_THROTTLE_BAD_EMAIL_TOKENS", 900)
#: Messages one client has sent, no matter who gets them.
MAIL: Final = Rule("mail", "IRONAUTH_THROTTLE_MAILS", 3_600, told="rule")
#: Messages of one kind to one mailbox, no matter who has them sent, and those one account has sent. A quarter of an
#: hour: a refused person has a message of this kind whose link still works, so strangers who ask for five keep nobody
#: out. With one count for all kinds, five that bring no link, or none at all, would keep the owner from a new password.
MAIL_TO_ONE: Final = Rule("mail", "IRONAUTH_THROTTLE_MAILS_TO_ONE", 900)
#: Messages about a deletion to one mailbox: a count of its own, so that who asks for other messages keeps nobody
#: from leaving. It also bounds who signs up and leaves again and again.
DELETION: Final = Rule("deletion", "IRONAUTH_THROTTLE_MAILS_TO_ONE", 900)
#: Exports of all that is held about one person: each reads hundreds of rows.
EXPORT: Final = Rule("data_export", "IRONAUTH_THROTTLE_EXPORTS", 3_600, told="left")
#: Second factors and recovery codes one account gets: each sends a message, perhaps to a stranger; codes cost hashes.
NEW_FACTOR: Final = Rule("new_factor", "IRONAUTH_THROTTLE_NEW_FACTORS", 3_600, told="left")
PASSWORD_CHECK: Final = Rule("password_check", "IRONAUTH_THROTTLE_PASSKEYS", 900)  # of pages without scripts
#: Applications that register themselves, and documents of applications that are fetched.
_ALL: Final = "IRONAUTH_THROTTLE_ALL_REGISTRATIONS"
REGISTRATION: Final = Rule("registration", "IRONAUTH_THROTTLE_REGISTRATIONS", 3_600, "rule", total=_ALL)

_HOLDER: Final = CompiledSelect(
    lambda: get_user_model().objects.filter(email_key=Param("key", CharField())).order_by().values_list("pk")
)
#: Limits of a /64 that a /48 may have: its customer is a company, not ten companies.
SITE_LIMITS: Final = 10


class Refused(NamedTuple):
    """Which count of a rule has no room, and for how many seconds; ``key`` is the count's."""

    rule: str
    by: str
    key: str
    wait_s: float
    limit: int = 0
    window_s: int = 0


async def admit(rule: Rule, *, address: str) -> None:
    """Count one more of ``rule`` for the client at ``address``, for good. One query, with Redis none.

    Args:
        rule: What is limited, and how often it may be done.
        address: The client's IP address; an unknown one ("") is not limited.

    Raises:
        Throttled: (429) Too many.
    """
    if settings.IRONAUTH_THROTTLE:
        await _admit(rule, _by_address(rule, address))


async def admit_account(rule: Rule, *, user_id: UUID) -> None:
    """Count one more of ``rule`` for this account, for good. One query, with Redis none.

    Args:
        rule: What is limited, and how often it may be done.
        user_id: The account; a refusal is recorded as about it.

    Raises:
        Throttled: (429) Too many.
    """
    if settings.IRONAUTH_THROTTLE:
        await _admit(rule, [("account", _question(rule, mac(rule.name, str(user_id))))], user_id)


async def admit_deletion(*, email: str, user_id: UUID) -> None:
    """Count one more message about a deletion to ``email``, for good. One query, with Redis none.

    Args:
        email: The mailbox that the message goes to, in any spelling.
        user_id: The account; a refusal is recorded as about it.

    Raises:
        Throttled: (429) Too many.
    """
    if settings.IRONAUTH_THROTTLE and settings.IRONAUTH_DELETION_GRACE_DAYS:
        await _admit(DELETION, [("mailbox", _question(DELETION, mac("deletion", emails.fold(email))))], user_id)


async def admit_mail(*, kind: MailKind, email: str, address: str = "", user_id: UUID | None = None) -> None:
    """Count one more message of this kind to ``email``, for good, whether or not anybody has that address.

    One unit of work of a query for each count, with Redis a question there for each.

    Args:
        kind: What is asked for.
        email: Where it would go.
        address: The client that asks; "" when it is counted elsewhere or unknown.
        user_id: Whose account it asks for, where it has proved that.

    Raises:
        Throttled: (429) Too many.
    """
    if not settings.IRONAUTH_THROTTLE:
        return
    asked = [("mailbox", _question(MAIL_TO_ONE, mac("mailbox", kind, emails.fold(email))))]
    if user_id is not None:
        asked.append(("account", _question(MAIL_TO_ONE, mac("mail of account", str(user_id)))))
    await _admit(MAIL, [*_by_address(MAIL, address), *asked], user_id)


async def _admit(rule: Rule, asked: Sequence[tuple[str, RateLimitHit]], user_id: UUID | None = None) -> None:
    """Take a place in each of these counts; those taken before one refuses stay taken."""
    left: list[tuple[str, RateLimitHit]] = []  # to be asked of the database
    for by, question in asked:
        found = await sliding_window.take_in_redis(question)
        if isinstance(found, Refusal):
            await refuse(_no_room(rule, by, question, found), user_id=user_id)
        if isinstance(found, Slot):
            _announce(rule, by, question, found)
        else:
            left.append((by, question))
    taken, refused = await database().write(_take, rule, left) if left else ([], None)
    for (by, question), slot in zip(left, taken, strict=False):
        _announce(rule, by, question, slot)
    if refused is not None:
        await refuse(refused, user_id=user_id)


def _take(rule: Rule, asked: Sequence[tuple[str, RateLimitHit]]) -> tuple[list[Slot], Refused | None]:
    """Take a place in each of these counts in the database; return those taken, and which count had none."""
    taken: list[Slot] = []
    for by, question in asked:
        found = sliding_window.take_in_database(question)
        if isinstance(found, Refusal):
            return taken, _no_room(rule, by, question, found)
        taken.append(found)
    return taken, None


def _no_room(rule: Rule, by: str, question: RateLimitHit, found: Refusal) -> Refused:
    limit = getattr(settings, rule.setting) if by == "address" else question.limit  # a whole site is not told of
    return Refused(rule.name, by, question.key, found.wait_s, limit, question.window_s)


def _announce(rule: Rule, by: str, question: RateLimitHit, taken: Slot) -> None:
    """Tell what is left of the asker's own count: of their address or account, never of a mailbox or a whole site."""
    limit: int = getattr(settings, rule.setting)
    if rule.told != "nothing" and by != "mailbox" and question.limit == limit:
        left = taken.left if rule.told == "left" else None
        announce(Quota(_policy(rule.name, by), limit, rule.window_s, left, rule.window_s))


def _policy(rule: str, by: str) -> str:
    """Return the name of a policy in headers: messages have one for each kind of count."""
    return f"{rule}_{by}" if rule == MAIL.name and by != "address" else rule


def announce_sign_in() -> None:
    """Tell how many failures one address may have, and never how many are left."""
    announce(Quota(SIGN_IN.name, getattr(settings, SIGN_IN.setting), SIGN_IN.window_s))


class Windows(NamedTuple):
    """What came of the questions about one client. ``left``: still to be asked of the database."""

    taken: tuple[Slot, ...] = ()
    left: tuple[RateLimitHit, ...] = ()
    refusal: Refusal | None = None
    refused_key: str = ""


async def take_in_redis(asked: Sequence[RateLimitHit]) -> Windows:
    """Take a place in each of these counts in Redis, until one refuses; without Redis they are all left."""
    taken: list[Slot] = []
    for at, question in enumerate(asked):
        found = await sliding_window.take_in_redis(question)
        if isinstance(found, Refusal):
            return Windows(tuple(taken), (), found, question.key)
        if found is None:
            return Windows(tuple(taken), tuple(asked[at:]))
        taken.append(found)
    return Windows(tuple(taken))


def take_in_database(windows: Windows) -> Windows:
    """Take a place in each count that is left. A unit of work for ``write``: a query each, one more for a refusal."""
    taken = list(windows.taken)
    for question in windows.left:
        found = sliding_window.take_in_database(question)
        if isinstance(found, Refusal):
            return Windows(tuple(taken), (), found, question.key)
        taken.append(found)
    return Windows(tuple(taken), (), windows.refusal, windows.refused_key)


async def give_back_to_redis(windows: Windows) -> None:
    """Give back the places that were taken in Redis."""
    for taken in windows.taken:
        if taken.in_redis:
            await sliding_window.give_back_to_redis(taken)


def give_back(windows: Windows) -> None:
    """Give back the places that were taken in the database. A unit of work: a query each."""
    for taken in windows.taken:
        if not taken.in_redis:
            sliding_window.give_back_to_database(taken.key, taken.slot)


def client_questions(rule: Rule, address: str) -> tuple[RateLimitHit, ...]:
    """Return what to ask about this client; nothing for one whose address is unknown: nobody could be told apart.

    Args:
        rule: What is limited; its limits for a client address apply.
        address: The client's IP address.
    """
    network, site = client_network(address), client_site(address)
    asked = (_question(rule, mac(rule.name, network)),) if network else ()
    return (*asked, _question(rule, mac(rule.name, site), times=SITE_LIMITS)) if site else asked


def _by_address(rule: Rule, address: str) -> list[tuple[str, RateLimitHit]]:
    asked = [("address", one) for one in client_questions(rule, address)]
    if rule.total:
        most = getattr(settings, rule.total)
        asked.append(("everybody", sliding_window.hit(mac(rule.name, "everybody"), limit=most, window_s=rule.window_s)))
    return asked


def mac(kind: str, *parts: str) -> str:
    """Return the key of the count of ``kind`` for what ``parts`` name.

    Args:
        kind: What is counted: counts of different kinds never share a key.
        *parts: What is counted for, such as an address; it cannot be read from the key.
    """
    text = "\0".join(("ironauth throttle", kind, *parts)).encode("utf-8", "surrogatepass")  # typed, not yet judged
    return keyed_mac(settings.SECRET_KEY.encode(), text).hex()[:_KEY_CHARACTERS]


def _question(rule: Rule, key: str, *, times: int = 1) -> RateLimitHit:
    limit: int = getattr(settings, rule.setting)
    return sliding_window.hit(key, limit=times * limit, window_s=rule.window_s)


async def refuse(refused: Refused, *, user_id: UUID | None = None, email: str = "") -> NoReturn:
    """Refuse, leaving an event in the trail unless it has a recent one of this count.

    Args:
        refused: Which count has no room.
        user_id: Whose account it is.
        email: Its address, where ``user_id`` is not known; one query then, no matter who has it.

    Raises:
        Throttled: (429) Always.
    """
    if _told.is_news(refused.key):
        if email:
            user_id = await database().read(_user_id_of, email)
        await audit.record_later(Event.THROTTLED, outcome=Outcome.REFUSED, user_id=user_id, details=_details(refused))
    name, limit, window_s = _policy(refused.rule, refused.by), refused.limit, refused.window_s
    if refused.rule == SIGN_IN.name and refused.by == "address":
        limit, window_s = getattr(settings, SIGN_IN.setting), SIGN_IN.window_s
    announce(Quota(name, limit, window_s, left=0, within_s=max(1, math.ceil(refused.wait_s))))
    raise _error(refused)


def _user_id_of(email: str) -> UUID | None:
    """Return who has this address. One query."""
    rows = _HOLDER.rows(key=emails.lookup_key(email))
    return rows[0][0] if rows else None


def _details(refused: Refused) -> audit.Details:
    """Return which rule and what kind of count refused, never the count's key."""
    return {"rule": refused.rule, "by": refused.by}


def _error(refused: Refused) -> Throttled:
    """Return the answer, and log it."""
    get_logger().info("throttled", rule=refused.rule, by=refused.by)
    wait_s = max(1, math.ceil(refused.wait_s))
    # In words too, and in the reader's language: the pages show people this line, and no headers.
    remedies = {**_REMEDIES, **_LONG_REMEDIES} if wait_s > _LONG_WAIT_S else _REMEDIES
    remedy = remedies.get((refused.rule, refused.by), "")
    detail = gettext("There were too many attempts: try again in {time}.").format(time=in_words(wait_s))
    return Throttled(f"{detail} {gettext(remedy)}".rstrip(), retry_after_s=wait_s)


class _Told:
    """Counts whose refusal is in the trail: one event an hour from each process, however many tries are refused.

    In memory: a refusal must stay cheap. A count is full before it refuses, so that there are fewer of these events
    than of what filled the counts.
    """

    INTERVAL_S: Final = 3_600
    MOST: Final = 10_000  # counts remembered, about 1 MiB; beyond it the oldest may be told again

    def __init__(self) -> None:
        self._until: dict[str, float] = {}  # in order of time
        self._lock = threading.Lock()

    def is_news(self, key: str) -> bool:
        """Return whether ``key`` was not told within the hour, and take it for told from now on."""
        now = clock.unix()
        with self._lock:
            if self._until.get(key, 0) > now:
                return False
            self._until.pop(key, None)
            if len(self._until) >= self.MOST:
                del self._until[next(iter(self._until))]
            self._until[key] = now + self.INTERVAL_S
            return True


_told = _Told()
