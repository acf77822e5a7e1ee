"""What people can do on the page of their account: one row for each subject, with its acts.

An act is a call of the API: who adds one writes down which, and its form in the row's template.
"""

import enum
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from django.utils.translation import gettext_noop as _

from accounts.mfa.factors import TOTP
from accounts.mfa.totp import services as totp


class Recent(enum.Enum):
    """Whether an act wants a proof of the last ten minutes, as its view in the API does (``users.step_up``)."""

    NO = enum.auto()
    ALWAYS = enum.auto()
    #: Of people who have a second factor; the password that the form asks for is enough for the others.
    WITH_FACTOR = enum.auto()


class Act(NamedTuple):
    """A form's act.

    Attributes:
        method: The HTTP method of the call.
        call: The name of its URL.
        fields: The fields of the form that become members of its JSON object.
        password: Which of them is the account's password.
        recent: Whether a recent proof is asked for.
        item: The parameter of the call's path that the page's path has.
        done: What the page says afterwards.
        shows: The template that shows the answer, where nobody is sent on.
        waiting: Returns an answer of this act that waits for the next one, of the person ``user_id``.
    """

    method: str
    call: str
    fields: tuple[str, ...] = ()
    password: str = ""
    recent: Recent = Recent.NO
    item: str = ""
    done: str = ""
    shows: str = ""
    waiting: Callable[..., Awaitable[Any]] | None = None


class Row(NamedTuple):
    """A row of the overview, and its page.

    Attributes:
        title: Its name.
        acts: Its acts, by the value of the button.
        reads: The calls whose answers its page shows: the names of their URLs.
        has_items: Whether each thing on its page has a page of its own.
        factor: The kind of second factor that it is about, of which the overview says whether it is on.
    """

    title: str
    acts: Mapping[str, Act]
    reads: tuple[str, ...] = ()
    has_items: bool = False
    factor: str = ""


ALWAYS: Final = Recent.ALWAYS
#: What is answered with a file.
EXPORT: Final = Act("GET", "me-export", recent=ALWAYS)
#: What is answered with where to go.
CONNECT: Final = Act("POST", "identities", ("provider",), recent=ALWAYS)
#: After which nobody is signed in.
DELETE: Final = Act("DELETE", "me", ("password", "email_code"), "password", Recent.WITH_FACTOR, shows="gone")
SIGN_OUT: Final = Act("POST", "logout")
#: What shows the secret of an app; it is shown again where its first code was wrong.
SET_UP: Final = Act("POST", "mfa-totp", recent=ALWAYS, shows="totp_setup", waiting=totp.waiting_totp)

ROWS: Final[Mapping[str, Row]] = {
    "name": Row(
        _("Name"),
        {
            "change": Act(
                "PATCH", "me", ("name", "given_name", "family_name", "preferred_username", "zoneinfo"),
                done=_("Your changes were saved."),
            )
        },
        ("me",),
    ),
    "email": Row(
        _("E-mail address"),
        {
            "change": Act(
                "POST", "email", ("new_email", "password", "email_code"), "password", ALWAYS,
                done=_("Open the message that is on its way to the new address."),
            )
        },
        ("me", "mfa"),
    ),
    "password": Row(
        _("Password"),
        {
            "change": Act(
                "POST", "password", ("current_password", "new_password"), "current_password", Recent.WITH_FACTOR,
                done=_("Your password was changed."),
            )
        },
        ("me", "mfa"),
    ),
    "passkeys": Row(
        _("Passkeys"),
        {
            "new": Act("POST", "mfa-passkeys-options", recent=ALWAYS, shows="new_passkey"),
            "add": Act(
                "POST", "mfa-passkeys", ("name", "challenge_token", "credential"), recent=ALWAYS,
                done=_("The passkey was added."), shows="recovery_codes",
            ),
            "rename": Act("PATCH", "mfa-passkey", ("name",), item="passkey_id", done=_("The passkey was renamed.")),
            "remove": Act(
                "DELETE", "mfa-passkey", recent=ALWAYS, item="passkey_id", done=_("The passkey was removed.")
            ),
        },
        ("mfa",),
        has_items=True,
    ),
    "codes": Row(
        _("One-time codes"),
        {
            "start": SET_UP,
            "confirm": Act("POST", "mfa-totp-confirm", ("code",), recent=ALWAYS, shows="recovery_codes"),
            "remove": Act(
                "DELETE", "mfa-totp", ("password", "email_code"), "password", ALWAYS,
                done=_("One-time codes were removed."),
            ),
        },
        ("me", "mfa"),
        factor=TOTP,
    ),
    "recovery": Row(
        _("Recovery codes"),
        {
            "new": Act(
                "POST", "mfa-recovery-codes", ("password", "email_code"), "password", ALWAYS, shows="recovery_codes"
            )
        },
        ("me", "mfa"),
    ),
    "identities": Row(
        _("Other providers"),
        {
            "connect": CONNECT,
            "remove": Act("DELETE", "identity", recent=ALWAYS, item="identity_id", done=_("The identity was removed.")),
        },
        ("mfa", "identities"),
        has_items=True,
    ),
    "sessions": Row(
        _("Where you are signed in"),
        {
            "end": Act("DELETE", "session", item="session_id", done=_("That device was signed out.")),
            "end_others": Act("DELETE", "sessions", done=_("You are signed out everywhere else.")),
        },
        ("sessions",),
    ),
    "devices": Row(
        _("Kept devices"),
        {"end": Act("DELETE", "kept-device", item="device_id", done=_("That device is not kept any longer."))},
        ("kept-devices",),
    ),
    "applications": Row(
        _("Applications"),
        {"remove": Act("DELETE", "consent", item="client_id", done=_("The application was removed."))},
        ("consents",),
    ),
    "organizations": Row(_("Organisations"), {}),  # whose pages are ``pages.organizations``
    "language": Row(
        _("Language"),
        {"change": Act("PUT", "me-language", ("language",), done=_("Your language was changed."))},
        ("me-language",),
    ),
    "data": Row(_("Your data"), {"export": EXPORT}, ("mfa",)),
    "delete": Row(_("Delete your account"), {"delete": DELETE}, ("me", "mfa")),
}  # fmt: skip
#: What the overview reads.
READS: Final = tuple(dict.fromkeys(name for row in ROWS.values() for name in row.reads))
#: Fields that no page shows again: secrets, and what a passkey is made of.
SECRET: Final = frozenset({
    "password", "current_password", "new_password", "code", "email_code", "challenge_token", "credential",
})  # fmt: skip
