"""*Sign in as*: the page below a person's on which a member of staff says why, and begins (``tokens.sessions.acting``).

The session is the browser's own one of the API then, in cookies; the one of this admin goes on beside it, and ends it.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from django import forms
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from accounts.admin.access import step_up as admin_step_up
from accounts.admin.users import UserAdmin
from accounts.audit import recording as audit
from accounts.audit.recording import MAX_DETAIL, Event, Outcome
from accounts.users.models import User
from accounts.users.second_factors import methods_of
from ironauth.config.cookies import REFRESH
from ironauth.infrastructure.admin import session_store
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import PermissionDenied as Refused
from ironauth.infrastructure.http import client_context, cookies
from tokens.errors import SigningKeyMissing
from tokens.sessions import refresh_token, services
from tokens.sessions.acting import banner, rules
from tokens.sessions.acting.banner import ActingFacts
from tokens.sessions.transport import set_cookies

_NAME = "accounts_user_sign_in_as"
_NO_FACTOR = "You have no second factor: set one up under Passkeys and codes, then sign in again."


class ReasonForm(forms.Form):
    """Why somebody looks at an account as its person sees it; both trails keep it."""

    reason = forms.CharField(
        max_length=MAX_DETAIL,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off", "class": "vTextField"}),
    )


def _page(model_admin: UserAdmin) -> URLPattern:
    def sign_in_as(request: HttpRequest, user_id: UUID) -> HttpResponse:
        return _answer(model_admin, request, user_id)

    return path("<uuid:user_id>/sign-in-as/", model_admin.admin_site.admin_view(sign_in_as), name=_NAME)


def _link(request: HttpRequest, user: User) -> tuple[str, str] | None:
    caller: Any = request.user
    return (reverse(f"admin:{_NAME}", args=[user.pk]), "Sign in as…") if rules.may_begin(caller, user) else None


def _answer(model_admin: UserAdmin, request: HttpRequest, user_id: UUID) -> HttpResponse:
    """Ask for the reason; with one, begin, and go on to the account's page.

    Raises:
        Http404: There is no such person, or this is switched off.
        PermissionDenied: The caller lacks the permission.
        StepUpRequired: No second factor was proved within ten minutes.
    """
    caller: Any = request.user
    if not settings.IRONAUTH_SIGN_IN_AS:
        raise Http404
    if not caller.has_perm(rules.PERMISSION):
        raise PermissionDenied
    user = User.objects.filter(pk=user_id).first()
    if user is None:
        raise Http404
    if not methods_of(caller.pk):
        return _form(model_admin, request, user, problem=_NO_FACTOR)
    admin_step_up.require_factor(request)
    form = ReasonForm(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        refusal = "" if rules.may_begin(caller, user) else "You may not sign in as this person."
        return _form(model_admin, request, user, form=form, problem=refusal)
    try:
        return _begun(request, user, form.cleaned_data["reason"])
    except Refused as refused:
        audit.record(Event.SIGN_IN_AS, outcome=Outcome.REFUSED, actor_id=caller.pk, user_id=user.pk)
        return _form(model_admin, request, user, problem=refused.detail)
    except SigningKeyMissing as refused:
        return _form(model_admin, request, user, form=form, problem=refused.detail, status=503)


def _begun(request: HttpRequest, user: User, reason: str) -> HttpResponse:
    """Open the session, and give it to the browser in place of one it may have had at these pages."""
    caller: Any = request.user
    pair = async_to_sync(services.sign_in_as)(
        actor_id=caller.pk,
        user_id=user.pk,
        reason=reason,
        context=client_context.context_of(request),
        until=session_store.ends_at(request.session.session_key or ""),
        previous=request.COOKIES.get(cookies.name_of(REFRESH), ""),
    )
    response = HttpResponseRedirect(reverse("email-pages:security-page"))
    set_cookies(response, pair)
    session = refresh_token.parse(pair.refresh_token)
    if session is not None:
        by = f"{caller.name} ({caller.email})" if caller.name else caller.email
        end = clock.now() + timedelta(seconds=pair.refresh_expires_in)
        banner.give(response, ActingFacts(session.session_id, by, user.email, end))
    return response


def _form(
    model_admin: UserAdmin,
    request: HttpRequest,
    user: User,
    *,
    form: ReasonForm | None = None,
    problem: str = "",
    status: int | None = None,
) -> HttpResponse:
    """Return the page; with a problem that no reason mends, without a form."""
    context = {
        **model_admin.admin_site.each_context(request),
        "title": f"Sign in as {user}?",
        "opts": model_admin.opts,
        "original": user,
        "form": form if not problem or status else None,
        "problem": problem,
        "minutes": rules.ACTING_S // 60,
        "media": model_admin.media,
    }
    request.current_app = model_admin.admin_site.name  # Django's own convention
    return TemplateResponse(request, "admin/sign_in_as.html", context, status=status or (403 if problem else 200))


UserAdmin.more_pages.append(_page)
UserAdmin.more_links.append(_link)
