"""*Ways in*: the page below a person's on which staff see each passkey and identity, and take single ones away."""

from typing import Any, Final, NamedTuple
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from accounts.access.rights import REMOVE_FACTORS, rights_of_user
from accounts.admin.access import step_up as admin_step_up
from accounts.admin.users import UserAdmin
from accounts.federation import queries as federation
from accounts.federation import removal
from accounts.mfa.passkeys import removal as passkeys
from accounts.mfa.passkeys.factor import PASSKEY, passkeys_of
from accounts.users.models import User
from accounts.users.second_factors import methods_of
from ironauth.infrastructure.admin.actions import is_danger, page_act
from ironauth.infrastructure.admin.read_only import moment
from ironauth.infrastructure.core.errors import DomainError
from ironauth.infrastructure.core.errors import PermissionDenied as Refused

_NAME: Final = "accounts_user_ways_in"
_NO_FACTOR: Final = "You have no second factor: set one up under Passkeys and codes, then sign in again."


class Row(NamedTuple):
    """A way in, as the page lists it."""

    kind: str
    id: UUID
    words: str
    since: str
    last_used: str


def _page(model_admin: UserAdmin) -> URLPattern:
    def ways_in(request: HttpRequest, user_id: UUID) -> HttpResponse:
        return _answer(model_admin, request, user_id)

    return path("<uuid:user_id>/ways-in/", model_admin.admin_site.admin_view(ways_in), name=_NAME)


def _link(request: HttpRequest, user: User) -> tuple[str, str] | None:
    """Offer the page to those who may take something away there. One query for staff who are no superusers."""
    caller: Any = request.user
    if not caller.has_perm(REMOVE_FACTORS) or not _may_take_from(caller, user):
        return None
    return reverse(f"admin:{_NAME}", args=[user.pk]), "Ways in…"


def _may_take_from(caller: User, user: User) -> bool:
    try:
        rights_of_user(caller).require_all_of(user)
    except Refused:
        return False
    return user.pk != caller.pk and not user.is_being_deleted


def _rows(user_id: UUID) -> list[Row]:
    """Return a person's passkeys and identities, the oldest of a kind first. Two queries."""
    keys = (
        Row(PASSKEY, one.id, f"Passkey {one.name}", moment(one.created_at), moment(one.last_used_at))
        for one in passkeys_of(user_id)
    )
    identities = (
        Row(
            federation.WAY_IN,
            one.id,
            f"{one.provider.name}: {one.email or 'no address'}",
            moment(one.created_at),
            moment(one.last_used_at),
        )
        for one in federation.identities(user_id)
    )
    return [*keys, *identities]


def _answer(model_admin: UserAdmin, request: HttpRequest, user_id: UUID) -> HttpResponse:
    """List the ways in; take one away where its button was pressed, after a second factor of the last ten minutes.

    Raises:
        Http404: There is no such person.
        PermissionDenied: The caller lacks the permission, or the person holds rights that they lack.
        StepUpRequired: No second factor was proved within ten minutes.
    """
    caller: Any = request.user
    if not caller.has_perm(REMOVE_FACTORS):
        raise PermissionDenied
    user = User.objects.select_related("pending_deletion").filter(pk=user_id).first()
    if user is None:
        raise Http404
    if not _may_take_from(caller, user):
        raise PermissionDenied
    if not methods_of(caller.pk):
        return _listed(model_admin, request, user, problem=_NO_FACTOR, status=403)
    admin_step_up.require_factor(request)
    if request.method != "POST":
        return _listed(model_admin, request, user)
    chosen = (request.POST.get("kind", ""), request.POST.get("way", ""))
    row = next((one for one in _rows(user.pk) if (one.kind, str(one.id)) == chosen), None)
    if row is None:
        return _listed(model_admin, request, user, problem="It is gone already.", status=404)
    try:
        with transaction.atomic():
            was_last = _taken(row, caller.pk, user.pk)
            LogEntry.objects.log_actions(
                caller.pk, User.objects.filter(pk=user.pk), CHANGE, change_message=f"Removed: {row.words}."
            )
    except DomainError as refused:
        return _listed(model_admin, request, user, problem=refused.detail, status=refused.status)
    messages.success(request, f"Removed: {row.words}.")
    if was_last:
        messages.warning(request, "It was the last way to sign in. The person was sent a link to choose a password.")
    return HttpResponseRedirect(reverse("admin:accounts_user_change", args=[user.pk]))


@page_act(danger=True)
def _taken(row: Row, caller_id: UUID, user_id: UUID) -> bool:
    """Take it away; return whether it was the last way in."""
    if row.kind == PASSKEY:
        return passkeys.remove_by_staff(actor_id=caller_id, user_id=user_id, passkey_id=row.id)
    return removal.unlink_by_staff(actor_id=caller_id, user_id=user_id, identity_id=row.id)


def _listed(
    model_admin: UserAdmin, request: HttpRequest, user: User, *, problem: str = "", status: int = 200
) -> HttpResponse:
    """Return the page, without buttons for staff who have no second factor."""
    context = {
        **model_admin.admin_site.each_context(request),
        "title": f"Ways in of {user}",
        "opts": model_admin.opts,
        "original": user,
        "rows": _rows(user.pk),
        "danger": is_danger(_taken),
        "may_take": problem != _NO_FACTOR,
        "has_password": user.has_usable_password(),
        "problem": problem,
        "media": model_admin.media,
    }
    request.current_app = model_admin.admin_site.name  # Django's own convention
    return TemplateResponse(request, "admin/ways_in.html", context, status=status)


UserAdmin.more_pages.append(_page)
UserAdmin.more_links.append(_link)
