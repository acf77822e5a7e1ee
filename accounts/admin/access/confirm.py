"""The page "Confirm it is you" of the admin: once more the password, and a second factor if there is one."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

from accounts.admin.access import step_up as admin_step_up
from accounts.admin.access.second_factor import Step, page, second_step
from accounts.admin.actions import person_page
from accounts.admin.forms import is_own_password
from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.passwords import formats
from accounts.users.models import User
from accounts.users.second_factors import methods_of

_TITLE: Final = "Confirm it is you"
_STEP: Final = Step(_TITLE, Event.STEP_UP, here="admin:confirm_code", submit="Confirm")
_WRONG: Final = "The password is wrong: check it and try again."
_AGAIN: Final = "Confirming took too long or was interrupted. Please try again."
_NOT_DONE: Final = "You have confirmed that it is you. What you started was not done: please do it again now."


class PasswordAgainForm(forms.Form):
    """The password of anybody who is signed in, judged on the hash pool and under the count of the API's step-up."""

    # Refused before hashing, as at the sign-in.
    password = forms.CharField(
        label="Password",
        strip=False,
        max_length=formats.MAX_LENGTH,
        widget=forms.PasswordInput(attrs={"autofocus": True, "autocomplete": "current-password"}),
    )

    def __init__(self, data: Any = None, *, user: User) -> None:
        super().__init__(data)
        self.user = user

    def clean_password(self) -> str:
        """Judge it. A wrong one is in the trail; a full pool and too many tries are said."""
        password: str = self.cleaned_data["password"]
        if not is_own_password(self.user, password, Event.STEP_UP):
            raise ValidationError(_WRONG, code="password_incorrect")
        return password


def lead(request: HttpRequest) -> HttpResponse:
    """Lead from an act that was not done, for want of a proof, to the page that asks for one, and back from there."""
    return redirect(_asking(person_page(request) or request.get_full_path()))


def confirm(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Ask for the password again, and confirm the session by a right one.

    Somebody with a second factor goes on to that instead.

    Args:
        site: The admin site whose session is confirmed.
        request: From a member of staff who is signed in; ``next`` in it says where to go afterwards.
    """
    next_url, user = _next(request), _caller(request)
    if admin_step_up.is_recent(request):  # by another window, or by the way back
        return redirect(next_url)
    form = PasswordAgainForm(request.POST if request.method == "POST" else None, user=user)
    if not form.is_valid():
        return page(site, request, "admin/confirm.html", _TITLE, form=form, next=next_url)
    if not methods_of(user.pk):
        return _confirmed(request, user, next_url, by_factor=False)
    details = {"on_the_way_to": Event.STEP_UP.value}
    audit.record(Event.SECOND_FACTOR_ASKED, actor_id=user.pk, user_id=user.pk, details=details)
    admin_step_up.note_first_step(request, next_url)
    return redirect(_STEP.here)


def confirm_code(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Ask for a code or a passkey, and confirm the session by a right one.

    Args:
        site: The admin site whose session is confirmed.
        request: From a member of staff whose password was right a moment ago.
    """
    next_url, user = admin_step_up.first_step(request), _caller(request)
    if next_url is None:
        messages.warning(request, _AGAIN)
        return redirect("admin:confirm")
    asking = second_step(site, request, user, _STEP, again=_asking(next_url))
    return asking if asking is not None else _confirmed(request, user, next_url, by_factor=True)


def _confirmed(request: HttpRequest, user: User, next_url: str, *, by_factor: bool) -> HttpResponse:
    """Go back to where the act was begun, which starts again there: what was sent with it is kept nowhere."""
    with transaction.atomic():
        audit.record(Event.STEP_UP, actor_id=user.pk, user_id=user.pk)
        admin_step_up.proved(request, by_factor=by_factor)
    messages.warning(request, _NOT_DONE)
    return redirect(next_url)


def _next(request: HttpRequest) -> str:
    """Return the path on this host to come back to; the start page for any other address."""
    asked = request.GET.get("next", "")
    safe = url_has_allowed_host_and_scheme(asked, {request.get_host()}, require_https=request.is_secure())
    return asked if safe and asked.startswith("/") else reverse("admin:index")


def _asking(next_url: str) -> str:
    return f"{reverse('admin:confirm')}?{urlencode({'next': next_url})}"


def _caller(request: HttpRequest) -> User:
    caller: Any = request.user
    user: User = caller
    return user
