"""What superusers and machines do with sign-in providers; async, keyword-only."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError

from accounts.access.rights import for_holder
from accounts.access.scopes import SEE_PROVIDERS
from accounts.lockout import rate_limits
from ironauth.infrastructure.api.conditional import Edited
from ironauth.infrastructure.core.errors import FieldError, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.upstream.administration import trial, units
from tokens.upstream.administration.outputs import SignInProviderOut, TrialOut

#: A provider, as ``get_provider`` shows it, for changes under a condition.
EDITED: Final = Edited(show=units.provider_by_slug, lock=units.lock)


async def list_providers(*, actor_id: UUID) -> list[SignInProviderOut]:
    """Return the providers, in the order of their buttons.

    Args:
        actor_id: The superuser, or the machine.

    Raises:
        PermissionDenied: The caller may not see them.
    """
    return await database().read(for_holder, actor_id, SEE_PROVIDERS, units.providers)


async def get_provider(*, actor_id: UUID, slug: str) -> SignInProviderOut:
    """Return one provider.

    Args:
        actor_id: The superuser, or the machine.
        slug: The provider's short name.

    Raises:
        PermissionDenied: The caller may not see them.
        NotFound: There is none of this short name.
    """
    return await database().read(for_holder, actor_id, SEE_PROVIDERS, units.provider_by_slug, slug)


async def create_provider(*, actor_id: UUID, values: Mapping[str, Any]) -> SignInProviderOut:
    """Make a provider.

    Args:
        actor_id: The superuser, or the machine.
        values: The fields of ``ProviderCreateInput``.

    Raises:
        PermissionDenied: The caller may not change providers.
        ValidationFailed: Naming every bad field.
    """
    try:
        made = await database().write(units.create, actor_id=actor_id, values=values)
    except IntegrityError as error:
        taken = FieldError("slug", "unique", "A sign-in provider of this short name has just been made.")
        raise ValidationFailed(errors=[taken]) from error
    get_logger().info("provider_added", provider=made.slug, by=str(actor_id))
    return made


async def change_provider(*, actor_id: UUID, slug: str, values: Mapping[str, Any]) -> SignInProviderOut:
    """Change the fields of a provider that are sent.

    Args:
        actor_id: The superuser, or the machine.
        slug: The provider's short name.
        values: The fields of ``ProviderPatchInput``.

    Raises:
        NotFound: There is none of this short name.
        PermissionDenied: The caller may not change providers.
        ValidationFailed: Naming every bad field, and what would leave people without a way in.
    """
    changed = await database().write(units.change, actor_id=actor_id, slug=slug, values=values)
    get_logger().info("provider_changed", provider=slug, by=str(actor_id))
    return changed


async def delete_provider(*, actor_id: UUID, slug: str) -> None:
    """Delete a provider that is switched off, with the identities there.

    Args:
        actor_id: The superuser, or the machine.
        slug: The provider's short name.

    Raises:
        NotFound: There is none of this short name.
        PermissionDenied: The caller may not change providers.
        ProviderEnabled: It is switched on.
    """
    await database().write(units.delete, actor_id=actor_id, slug=slug)
    get_logger().info("provider_deleted", provider=slug, by=str(actor_id))


async def try_provider(*, actor_id: UUID, slug: str) -> TrialOut:
    """Ask a provider for its document and keys now.

    Args:
        actor_id: The superuser, or the machine.
        slug: The provider's short name.

    Raises:
        NotFound: There is none of this short name.
        PermissionDenied: The caller may not change providers.
        Throttled: Too many requests to providers came from the caller's address.
    """
    row = await database().read(units.row_to_try, actor_id=actor_id, slug=slug)
    await rate_limits.admit(rate_limits.UPSTREAM, address=client_context.current().address)
    return await trial.of(row)
