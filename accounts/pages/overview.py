"""What the overview of an account says beside each of its rows."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from accounts.pages.acts import ROWS

#: What an application may know or do, in words. Other scopes go by their own names, one without a word by none.
_WORDS: Final = {
    "openid": "",
    "profile": _("name, language, time zone"),
    "email": _("e-mail address"),
    "roles": _("roles"),
    "organization": _("organisation, and your role there"),
    "offline_access": _("stays signed in"),
    "account": _("all of your account"),
}


class Line(NamedTuple):
    """A row of the overview."""

    slug: str
    title: str
    state: str


def lines(held: Mapping[str, Any]) -> list[Line]:
    """Return the rows of somebody's overview.

    Args:
        held: What the API answered, by the names of its URLs; without the names it had no answer for.
    """
    states = _states(held)
    return [Line(slug, row.title, states[slug]) for slug, row in ROWS.items() if slug in states]


def words_of(scope: str) -> list[str]:
    """Return what an application has been allowed by a scope (RFC 6749 §3.3), in words."""
    words = [_WORDS.get(one, one) for one in scope.split()]
    return [gettext(word) for word in words if word]


def _states(held: Mapping[str, Any]) -> dict[str, str]:
    """Return what is said beside each row that there is for this person."""
    none, unset = gettext("None"), gettext("Not set")
    me, mfa, identities = held["me"], held["mfa"], held["identities"]
    states = {
        "name": me["name"] or unset,
        "email": me["email"],
        "password": gettext("Set") if mfa["has_password"] else unset,
        "passkeys": str(len(mfa["passkeys"]) or none),
    }
    switches = {slug: row.factor in mfa["methods"] for slug, row in ROWS.items() if row.factor}
    states |= {slug: gettext("On") if is_on else gettext("Off") for slug, is_on in switches.items()}
    if mfa["methods"]:
        states["recovery"] = gettext("{count} left").format(count=mfa["recovery_codes_left"])
    if identities["identities"] or identities["providers"]:
        states["identities"] = str(len(identities["identities"]) or none)
    if held["kept-devices"] or settings.IRONAUTH_KEEP_DEVICE_DAYS:
        states["devices"] = str(len(held["kept-devices"]) or none)
    if "organizations" in held:
        waiting = len(held["offers"])
        invited = [gettext("Invitations: {count}").format(count=waiting)] if waiting else []
        member_of = [str(len(held["organizations"]) or none)] if held["organizations"] or not waiting else []
        states["organizations"] = ", ".join(member_of + invited)
    language = dict(settings.LANGUAGES).get(held["me-language"]["language"], gettext("The browser's"))
    return states | {
        "sessions": str(len(by_browser(held["sessions"]))),
        "applications": str(len(held["consents"]) or none),
        "language": language,
        "data": "",
        "delete": "",
    }


def by_browser(sessions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the sessions that stand alone, each with those of its browser that began in it, in however many steps.

    Args:
        sessions: As the API lists them, the most recently used first; so are the answer and what is in it.
    """
    began_in = {one["id"]: one["began_in"] for one in sessions}
    first: dict[str, dict[str, Any]] = {}
    for one in sessions:
        at = one["id"]
        while began_in[at] is not None:  # the API names what it lists alone
            at = began_in[at]
        of_browser = first.setdefault(at, {"rest": [], "is_here": False})
        of_browser["is_here"] |= one["current"]
        if at == one["id"]:
            of_browser["session"] = one
        else:
            of_browser["rest"].append(one)
    return list(first.values())
