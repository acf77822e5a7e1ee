"""What in the admin asks for a proof of the last ten minutes of who is there, as the API does (``step_up``).

Whatever is sent is such an act, unless it is named here; looking is none. So a page of tomorrow, or of another
application, asks before anybody has thought about it. The page that asks: ``confirm``.
"""

from typing import Any, Final

from django.contrib.admin import ActionLocation
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest

from accounts.admin.access.sign_in import CODE_S
from accounts.errors import StepUpRequired
from accounts.mfa import services
from accounts.users import step_up
from ironauth.infrastructure.core import clock

#: Pages on which what is sent gains nobody anything: an account without rights, the way out, and the proof itself.
_FREE_PAGES: Final = frozenset({"accounts_user_add", "confirm", "confirm_code", "logout"})
#: Actions on lists that end what is open, or have a message sent that opens nothing ("": none was chosen).
_FREE_ACTIONS: Final = frozenset({"", "end_all_sessions", "end_sessions", "resend_verification", "try_again"})
#: Fields of a person that say nothing about who gets in and what they may do.
_ORDINARY_FIELDS: Final = frozenset({"name"})
#: Where it is the fields that decide.
_PERSON: Final = "accounts_user_change"

_PROVED_AT: Final = "ironauth_proved_at"
_HALF: Final = "ironauth_half_proved"


def connect() -> None:
    """Note in each session when its sign-in was; connecting twice is harmless."""
    user_logged_in.connect(_signed_in, dispatch_uid="accounts.admin_step_up")


def require_for(request: HttpRequest) -> None:
    """Raise ``StepUpRequired`` for a request that does something sensitive from a session proved too long ago.

    Whether saving a person's page does is known once its form is read: ``require_for_form``. No query; one for the
    page of one's own password.
    """
    if request.method not in ("GET", "HEAD", "OPTIONS") and not is_recent(request) and not _is_free(request):
        _require(request)


def require_for_form(request: HttpRequest, form: Any) -> None:
    """Raise ``StepUpRequired`` when a person's valid ``form`` changes something sensitive; call it on saving."""
    if not _ORDINARY_FIELDS.issuperset(form.changed_data):
        _require(request)


def require_for_rows(request: HttpRequest, formset: Any) -> None:
    """Raise ``StepUpRequired`` when something changes below a person's form: rows of another application's inline."""
    if formset.has_changed():
        _require(request)


def is_recent(request: HttpRequest) -> bool:
    """Tell whether the session was proved at most 600 seconds ago."""
    try:
        _require(request)
    except StepUpRequired:
        return False
    return True


def proved(request: HttpRequest) -> None:
    """Note that the session's person is here. It goes on under a new key: a copy of the old one proves nothing."""
    request.session.pop(_HALF, None)
    request.session.cycle_key()
    request.session[_PROVED_AT] = int(clock.unix())


def half_proved(request: HttpRequest, next_url: str) -> None:
    """Note that the password was right, and a second factor has to follow."""
    request.session[_HALF] = {"at": clock.unix(), "next": next_url}


def half(request: HttpRequest) -> str | None:
    """Return where to go once the second factor is right; None without a password of the last 300 seconds."""
    state: Any = request.session.get(_HALF)
    if not state or abs(clock.unix() - state["at"]) >= CODE_S:
        return None
    next_url: str = state["next"]
    return next_url


def _require(request: HttpRequest) -> None:
    step_up.require_recent_at(request.session.get(_PROVED_AT, 0))


def _is_free(request: HttpRequest) -> bool:
    """Tell whether what is sent needs no proof, or cannot be told yet."""
    match = request.resolver_match
    page = (match.url_name if match else None) or ""
    if page == "password_change":  # asks for the password itself, which is enough for who has nothing else
        caller: Any = request.user
        return not services.methods_blocking(caller)
    if page.endswith("_changelist"):
        actions = request.POST.getlist("action")  # the form may have several, and one of them is carried out
        edits = "_save" in request.POST  # the fields of a list that can be edited, whatever action is named beside
        return bool(actions) and not edits and _FREE_ACTIONS.issuperset(actions)
    if page == _PERSON:
        return f"{ActionLocation.CHANGE_FORM.value}-action" not in request.POST
    return page in _FREE_PAGES


def _signed_in(request: HttpRequest, **_: object) -> None:
    request.session[_PROVED_AT] = int(clock.unix())
