"""Units of work on sign-in providers. Each checks the caller's rights inside its own transaction."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from accounts.access.rights import rights_of
from accounts.access.scopes import CHANGE_PROVIDERS
from accounts.federation.models import UpstreamProvider
from ironauth.infrastructure.core.errors import FieldError, NotFound, ValidationFailed
from tokens.upstream.administration import queries
from tokens.upstream.administration.errors import ProviderEnabled
from tokens.upstream.administration.form import LEAVE, ProviderForm
from tokens.upstream.administration.outputs import SignInProviderOut, provider_out

MOST: Final = 1_000  # providers in a list; a page of sign-in buttons has a handful
_LISTS: Final = ("domains", "second_factors", "more_scopes")
_NO_PROVIDER: Final = "There is no sign-in provider of this short name."


def providers() -> list[SignInProviderOut]:
    """Return the providers in the order of their buttons. One query."""
    return [provider_out(row) for row in UpstreamProvider.objects.all()[:MOST]]


def provider_by_slug(slug: str) -> SignInProviderOut:
    """Return one provider. One query.

    Raises:
        NotFound: There is none of this short name.
    """
    return provider_out(_row(slug))


def lock(slug: str) -> UpstreamProvider:
    """Return one provider, locked until the transaction ends.

    Raises:
        NotFound: There is none of this short name.
    """
    return _row(slug, UpstreamProvider.objects.select_for_update())


def row_to_try(*, actor_id: UUID, slug: str) -> UpstreamProvider:
    """Return the provider that somebody wants to try.

    Args:
        actor_id: The superuser, or the machine.
        slug: The provider's short name.

    Raises:
        PermissionDenied: The caller may not change providers.
        NotFound: There is none of this short name.
    """
    rights_of(actor_id).require(CHANGE_PROVIDERS)
    return _row(slug)


def create(*, actor_id: UUID, values: Mapping[str, Any]) -> SignInProviderOut:
    """Make a provider.

    Args:
        actor_id: The superuser, or the machine.
        values: The fields of ``ProviderCreateInput``; what is not in it has the default of the admin's form.

    Raises:
        PermissionDenied: The caller may not change providers.
        ValidationFailed: Naming every bad field.
        IntegrityError: The short name was taken meanwhile.
    """
    rights_of(actor_id).require(CHANGE_PROVIDERS)
    defaults = {"enabled": True, "creates_accounts": True}
    form = _judged(ProviderForm(_typed({**defaults, **values})))
    provider: UpstreamProvider = form.save(commit=False)
    queries.store(provider, form, is_new=True, actor_id=actor_id)
    return provider_out(provider)


def change(*, actor_id: UUID, slug: str, values: Mapping[str, Any]) -> SignInProviderOut:
    """Change the fields that are sent; where none has another value there is no event.

    Args:
        actor_id: The superuser, or the machine.
        slug: The provider's short name; its row is locked until the transaction ends.
        values: The fields of ``ProviderPatchInput``.

    Raises:
        NotFound: There is none of this short name.
        PermissionDenied: The caller may not change providers.
        ValidationFailed: Naming every bad field, and what would leave people without a way in.
    """
    rights_of(actor_id).require(CHANGE_PROVIDERS)
    row = lock(slug)
    stored = {name: getattr(row, name) for name in ProviderForm.Meta.fields if name != "secret"}
    form = _judged(ProviderForm(_typed({**stored, **values}), instance=row))
    if {*form.changed_data} - {LEAVE}:
        queries.store(form.save(commit=False), form, is_new=False, actor_id=actor_id)
    return provider_out(row)


def delete(*, actor_id: UUID, slug: str) -> None:
    """Delete a provider that is switched off, with the identities there.

    Args:
        actor_id: The superuser, or the machine.
        slug: The provider's short name.

    Raises:
        NotFound: There is none of this short name.
        PermissionDenied: The caller may not change providers.
        ProviderEnabled: It is switched on.
    """
    rights_of(actor_id).require(CHANGE_PROVIDERS)
    row = lock(slug)
    if row.enabled:
        raise ProviderEnabled
    queries.remove(row, actor_id=actor_id)


def _row(slug: str, rows: "QuerySet[UpstreamProvider] | None" = None) -> UpstreamProvider:
    row = (UpstreamProvider.objects.all() if rows is None else rows).filter(slug=slug).first()
    if row is None:
        raise NotFound(_NO_PROVIDER)
    return row


def _typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as they are typed into the form: lists one to a line."""
    return {name: "\n".join(value) if name in _LISTS else value for name, value in values.items()}


def _judged(form: ProviderForm) -> ProviderForm:
    """Return the form if it is valid; raise ``ValidationFailed`` with every bad field otherwise."""
    if form.is_valid():
        return form
    raise ValidationFailed(
        errors=[
            FieldError("" if field == "__all__" else field, error.code or "invalid", " ".join(error.messages))
            for field, errors in form.errors.as_data().items()
            for error in errors
        ]
    )
