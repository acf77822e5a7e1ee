"""What a client's page in the admin offers next to its form: another secret, disable, enable, and how to use it."""

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse

from ironauth.infrastructure.admin.actions import CONFIRMED, ask, holds, is_danger, page_act
from ironauth.infrastructure.admin.made_once import secret_page
from ironauth.infrastructure.admin.tabs import Tabbed
from tokens.admin import client_presets
from tokens.admin.client_snippets import snippets
from tokens.admin.read_only import note
from tokens.clients import units as client_units
from tokens.clients.dynamic import queries as strangers
from tokens.clients.errors import SessionsEnding
from tokens.clients.fetched import logos
from tokens.clients.models import EndingClient, OAuthClient, OAuthClientSecret
from tokens.rights import CHANGE_CLIENTS

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

#: How long a replaced secret may go on, in seconds, and the words for it.
EXPIRE_OLD: Final = ((86_400, "for a day"), (604_800, "for a week"), (3_600, "for an hour"), (0, "not at all"))
NEWEST: Final = "newest"  # the secret that was the newest when the page was made
SEEN: Final = "seen"  # what the page showed of a client that nobody has verified


class ClientActs(Tabbed):
    """Mixin of the page of a client."""

    def get_urls(self) -> list[URLPattern]:
        """Add the addresses of the buttons."""
        acts = (
            ("rotate-secret", self.rotate_secret),
            ("disable", self.disable),
            ("enable", self.enable),
            ("verify", self.verify),
        )
        own = [
            path(
                f"<uuid:client_id>/{name}/",
                self.admin_site.admin_view(view),
                name=f"tokens_oauthclient_{name.replace('-', '_')}",
            )
            for name, view in acts
        ]
        return [*own, *super().get_urls()]

    #: Of any client, also one that acts without asking: stopping it in a hurry gains nobody anything.
    has_disable_permission = holds(CHANGE_CLIENTS)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Add the buttons the caller may press, and how to use the client."""
        client: OAuthClient | None = kwargs.get("obj")
        tab = self.tab_of(request, client) or self.tabs[0]
        if client is None:
            context["presets"] = client_presets.choices(request)
        elif tab is self.tabs[0]:
            may_change = self.has_change_permission(request, client)
            context["may_disable"] = self.has_disable_permission(request) and client.disabled_at is None
            context["may_enable"] = may_change and client.disabled_at is not None
            context["may_verify"] = may_change and client.is_unverified
            context["picture"] = logos.mark_of(client)
            context["seen"] = strangers.mark_of(client, context["picture"])
            context["may_rotate"] = may_change and client.auth_method == OAuthClient.AuthMethod.SECRET
            context["danger"] = {
                act.__name__: is_danger(act) for act in (self.disable, self.enable, self.rotate_secret, self.verify)
            }
            context["newest"] = _newest(client) if context["may_rotate"] else ""
            context["expire_old"] = EXPIRE_OLD
            context["snippets"] = snippets(client)
            context["may_delete"] = self.has_delete_permission(request, client)
        return super().render_change_form(request, context, *args, **kwargs)

    @page_act(danger=False)  # the secret before goes on as long as the form says
    def rotate_secret(self, request: HttpRequest, client_id: UUID) -> HttpResponse:
        """Give the client another secret and show it, this once; a page loaded again does not do it twice."""
        client = self._for(request, client_id, "change")
        seconds = request.POST.get("expire_old_in_s", "")
        if request.method != "POST":
            return HttpResponseRedirect(page_of(client_id))
        if seconds not in {str(choice) for choice, _ in EXPIRE_OLD} or _newest(client) != request.POST.get(NEWEST):
            self.message_user(request, "Nothing was done: the client has another secret since.", messages.WARNING)
            return HttpResponseRedirect(page_of(client_id))
        try:
            with transaction.atomic():
                secret = client_units.rotate_secret(
                    client_id, expire_old_in_s=int(seconds), actor_id=caller_of(request)
                )
                note(request, [client], "Secret rotated.", action="rotate_client_secret")
        except client_units.NoSecretError as refused:
            self.message_user(request, str(refused), messages.ERROR)
            return HttpResponseRedirect(page_of(client_id))
        return secret_of(self, request, client, secret)

    @page_act(danger=True)
    def disable(self, request: HttpRequest, client_id: UUID) -> HttpResponse:
        """Refuse the client and its tokens from now on, after asking."""
        client = self._for(request, client_id, "disable")
        if request.method == "POST" and CONFIRMED not in request.POST:
            return ask(
                self,
                request,
                action="disable",
                title="Disable",
                question=f"Disable {client.name}?",
                warning="Its tokens are refused at once and its sessions end: everybody is signed out of it. After it "
                "is enabled again, people sign in anew.",
                shown=[],
                danger=is_danger(self.disable),
            )
        if request.method == "POST":  # a GET comes back from signing in again, and changes nothing
            with transaction.atomic():
                ended = client_units.disable(client_id, actor_id=caller_of(request))
                if ended is not None:
                    note(request, [client], "Disabled.", action="disable_client")
            sessions = "1 session" if ended == 1 else f"{ended or 0:,} sessions"
            more = " The others are ending: its state says how many have." if _is_ending(client_id) else ""
            self.message_user(request, f"{client.name} is disabled; {sessions} ended.{more}", messages.SUCCESS)
        return HttpResponseRedirect(page_of(client_id))

    @page_act(danger=False)
    def enable(self, request: HttpRequest, client_id: UUID) -> HttpResponse:
        """Let the client sign people in again."""
        client = self._for(request, client_id, "change")
        if request.method == "POST":
            try:
                with transaction.atomic():
                    if client_units.enable(client_id, actor_id=caller_of(request)):
                        note(request, [client], "Enabled.", action="enable_client")
            except SessionsEnding as refused:
                self.message_user(request, refused.detail, messages.ERROR)
                return HttpResponseRedirect(page_of(client_id))
            self.message_user(request, f"{client.name} is enabled.", messages.SUCCESS)
        return HttpResponseRedirect(page_of(client_id))

    @page_act(danger=False)
    def verify(self, request: HttpRequest, client_id: UUID) -> HttpResponse:
        """Note that staff have looked at a client that none of them made."""
        client = self._for(request, client_id, "change")
        if request.method == "POST":
            with transaction.atomic():
                client = get_object_or_404(OAuthClient.objects.select_for_update(), pk=client_id)
                is_same = strangers.mark_of(client, logos.mark_of(client)) == request.POST.get(SEEN, "")
                if is_same and client_units.verify(client_id, actor_id=caller_of(request)):
                    note(request, [client], "Verified.", action="verify_client")
            if is_same:
                self.message_user(request, f"{client.name} is verified.", messages.SUCCESS)
            else:
                changed = "Nothing was done: the client has changed since its page was made. Look at it again."
                self.message_user(request, changed, messages.WARNING)
        return HttpResponseRedirect(page_of(client_id))

    def _for(self, request: HttpRequest, client_id: UUID, permission: str) -> OAuthClient:
        """Return the client. Raises ``Http404``, and ``PermissionDenied`` without ``permission`` over it."""
        client = OAuthClient.objects.filter(pk=client_id).first()
        if client is None:
            raise Http404
        if not getattr(self, f"has_{permission}_permission")(request, client):
            raise PermissionDenied
        return client


def secret_of(
    model_admin: "ModelAdmin[OAuthClient]", request: HttpRequest, client: OAuthClient, secret: str
) -> HttpResponse:
    """Return the one page that has a client's secret.

    Args:
        model_admin: The admin of clients.
        request: Of the member of staff who made the client or its secret.
        client: Whose secret it is.
        secret: In clear; it is stored as a hash and cannot be shown again.
    """
    return secret_page(
        model_admin,
        request,
        what="secret",
        owner=client.name,
        page=page_of(client.pk),
        advice="Copy it to where the application reads it: nobody can look it up here later, and a lost one is "
        "replaced by a new one.",
        lines=(("client_id", str(client.pk)), ("client_secret", secret)),
    )


def caller_of(request: HttpRequest) -> UUID:
    """Return who uses the admin."""
    caller: Any = request.user
    user_id: UUID = caller.pk
    return user_id


def page_of(client_id: UUID | None) -> str:
    """Return the address of a client's page."""
    return reverse("admin:tokens_oauthclient_change", args=[client_id])


def _newest(client: OAuthClient) -> str:
    """Return the id of the client's newest secret, "" without one."""
    newest = OAuthClientSecret.objects.filter(client=client).order_by("-created_at", "-id").first()
    return str(newest.pk) if newest else ""


def _is_ending(client_id: UUID) -> bool:
    return EndingClient.objects.filter(pk=str(client_id)).exists()
