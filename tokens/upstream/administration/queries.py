"""What the admin's page and the API write about a sign-in provider, each in one transaction with its event."""

from uuid import UUID

from django.db import transaction

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.federation import kept_tokens
from accounts.federation.models import UpstreamProvider
from accounts.federation.secrets import seal_into
from tokens.upstream import lost_ways
from tokens.upstream.administration.form import LEAVE, ProviderForm


@transaction.atomic
def store(provider: UpstreamProvider, form: ProviderForm, *, is_new: bool, actor_id: UUID) -> None:
    """Store a provider as its form has judged it, with its secret, and leave an event.

    Where nobody can sign in with it from now on, the sessions that began with it end. Where it keeps no tokens from now
    on, or is asked as another client, those that are kept are deleted.

    Args:
        provider: The row, with the form's values.
        form: A valid form.
        is_new: Whether the provider is made by this.
        actor_id: The superuser, or the machine.
    """
    if form.cleaned_data.get("secret"):
        seal_into(provider, form.cleaned_data["secret"])
    provider.save()
    stops = "keep_tokens" in form.changed_data and not provider.keep_tokens
    if not is_new and (stops or (provider.keep_tokens and form.is_another)):
        kept_tokens.forget(provider.pk)
    fields = [] if is_new else sorted({*form.changed_data} - {LEAVE})
    _record(provider, "added" if is_new else "changed", fields, actor_id=actor_id)
    if form.shuts_out:
        lost_ways.end_after_commit(provider_id=provider.pk, slug=provider.slug, actor_id=actor_id)


@transaction.atomic
def remove(provider: UpstreamProvider, *, actor_id: UUID) -> None:
    """Delete a provider with the identities there, and leave an event.

    Args:
        provider: The provider; the caller has judged that it may go.
        actor_id: The superuser, or the machine.
    """
    _record(provider, "deleted", [], actor_id=actor_id)
    provider.delete()


def _record(provider: UpstreamProvider, act: str, fields: list[str], *, actor_id: UUID) -> None:
    """Leave an event of an act on a provider.

    Args:
        provider: The provider.
        act: What was done.
        fields: The names of the fields that were changed.
        actor_id: The superuser, or the machine.
    """
    details = {"provider": provider.slug, "act": act, "fields": fields}
    audit.record(Event.PROVIDER_CHANGED, actor_id=actor_id, details=details)
