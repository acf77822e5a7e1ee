"""What in the admin needs a recent proof: a password or factor of the last ten minutes, as the API's ``step_up`` asks.

Every request that sends something needs it, unless its action, its model's admin or its site declares otherwise.
Requests that only look do not. So a new page, and one of another application, asks by default. The page that asks is
``confirm``. Declarations:

- an action: ``admin_action(…, step_up=False)``;
- a model's admin: ``adding_needs_step_up = False``, and ``ordinary_fields``, where the changed fields decide;
- the site: ``pages_without_step_up``, names of its own pages.
"""

from collections.abc import Collection
from typing import Any, Final

from django.contrib.admin import ActionLocation
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest

from accounts.admin.access.sign_in import CODE_S, FACTOR_AT
from accounts.errors import StepUpRequired
from accounts.users import step_up
from accounts.users.second_factors import methods_of
from ironauth.infrastructure.admin.actions import needs_step_up
from ironauth.infrastructure.core import clock

_PROVED_AT: Final = "ironauth_proved_at"
_FIRST_STEP: Final = "ironauth_half_proved"


def connect() -> None:
    """Note in each session when its sign-in was; connecting twice is harmless."""
    user_logged_in.connect(_signed_in, dispatch_uid="accounts.admin_step_up")


def require_for(request: HttpRequest, *, free_pages: Collection[str]) -> None:
    """Raise ``StepUpRequired`` for a request that does something sensitive from a session proved too long ago.

    Whether saving a person's page does is known once its form is read: ``require_for_form``. No query; one for the
    page of one's own password.

    Args:
        request: What is asked of the admin.
        free_pages: Names of the site's own pages that ask for no proof.

    Raises:
        StepUpRequired: The session was proved more than 600 seconds ago.
    """
    if request.method in ("GET", "HEAD", "OPTIONS") or is_recent(request) or _is_free(request, free_pages):
        return
    _require(request)


def require_for_form(request: HttpRequest, form: Any, *, ordinary: Collection[str]) -> None:
    """Raise ``StepUpRequired`` when a valid ``form`` changes more than ``ordinary`` fields; call it on saving.

    Args:
        request: Of a member of staff.
        form: A form that is valid; what it has changed is asked of it.
        ordinary: The names of the fields that may change without a recent proof.
    """
    if not set(form.changed_data) <= set(ordinary):
        _require(request)


def require_for_rows(request: HttpRequest, formset: Any) -> None:
    """Raise ``StepUpRequired`` when something changes below a person's form: rows of another application's inline.

    Args:
        request: Of a member of staff.
        formset: The rows of an inline, which are valid.
    """
    if formset.has_changed():
        _require(request)


def require_factor(request: HttpRequest) -> None:
    """Raise ``StepUpRequired`` unless a second factor was proved at most 600 seconds ago; a password is not enough.

    For who has a factor: the page that asks lets others in by the password alone.
    """
    try:
        step_up.require_recent_at(request.session.get(FACTOR_AT, 0))
    except StepUpRequired:
        request.session[_PROVED_AT] = 0  # a password of a moment ago does not spare the page that asks
        raise


def is_recent(request: HttpRequest) -> bool:
    """Tell whether the session was proved at most 600 seconds ago."""
    try:
        _require(request)
    except StepUpRequired:
        return False
    return True


def proved(request: HttpRequest, *, by_factor: bool) -> None:
    """Note that the session's person is here. It goes on under a new key: a copy of the old one proves nothing.

    Args:
        request: Its request.
        by_factor: Whether a second factor was proved, not the password alone.
    """
    request.session.pop(_FIRST_STEP, None)
    request.session.cycle_key()
    request.session[_PROVED_AT] = int(clock.unix())
    if by_factor:
        request.session[FACTOR_AT] = request.session[_PROVED_AT]


def note_first_step(request: HttpRequest, next_url: str) -> None:
    """Note that the password was right, and a second factor has to follow.

    Args:
        request: Its session remembers the time, for the second step.
        next_url: Where to go once the second factor is proved.
    """
    request.session[_FIRST_STEP] = {"at": clock.unix(), "next": next_url}


def first_step(request: HttpRequest) -> str | None:
    """Return where to go once the second factor is right; None without a password of the last 300 seconds."""
    state: Any = request.session.get(_FIRST_STEP)
    if not state or abs(clock.unix() - state["at"]) >= CODE_S:
        return None
    next_url: str = state["next"]
    return next_url


def _require(request: HttpRequest) -> None:
    step_up.require_recent_at(request.session.get(_PROVED_AT, 0))


def _is_free(request: HttpRequest, free_pages: Collection[str]) -> bool:
    """Tell whether what is sent needs no proof, or cannot be told yet."""
    match = request.resolver_match
    page = (match.url_name if match else None) or ""
    model_admin = getattr(match.func, "model_admin", None) if match else None  # set by Django on each page of a model
    if page == "password_change":  # asks for the password itself, enough for people without a factor
        caller: Any = request.user
        return not methods_of(caller.pk)
    if page.endswith("_changelist"):
        actions = request.POST.getlist("action")  # the form may have several, and one of them is carried out
        edits = "_save" in request.POST  # the fields of a list that can be edited, whatever action is named beside
        if edits or not actions or model_admin is None:
            return False
        return not any(needs_step_up(model_admin, action) for action in actions if action)
    opts = getattr(model_admin, "opts", None)
    model = f"{opts.app_label}_{opts.model_name}" if opts is not None else ""
    if page == f"{model}_add":
        return not getattr(model_admin, "adding_needs_step_up", True)
    if page == f"{model}_change" and hasattr(model_admin, "ordinary_fields"):
        return f"{ActionLocation.CHANGE_FORM.value}-action" not in request.POST
    return page in free_pages


def _signed_in(request: HttpRequest, **_: object) -> None:
    request.session[_PROVED_AT] = int(clock.unix())
