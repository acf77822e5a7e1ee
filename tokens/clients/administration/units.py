"""Units of work on clients by staff and machines. Each checks the caller's rights inside its own transaction."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from django.db.models import Q

from accounts import names
from accounts.access.rights import Rights, rights_of
from ironauth.infrastructure.api import paging
from ironauth.infrastructure.api.paging import Page
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied, ValidationFailed
from tokens.clients import profiles, rules
from tokens.clients import units as client_units
from tokens.clients.administration.errors import NoSecret, SecretReplaced
from tokens.clients.administration.inputs import ORDERING
from tokens.clients.administration.outputs import Beside, ClientOut, ClientSecretShown, client_out, secret_shown
from tokens.clients.fetched.models import ClientLogo
from tokens.clients.models import OAuthClient, OAuthClientSecret, default_grants
from tokens.clients.presets import ID_TOKEN_ALG, PRESETS
from tokens.rights import ADD_CLIENTS, CHANGE_CLIENTS, DELETE_CLIENTS

_NO_CLIENT: Final = "There is no client with this client_id."


def page(filters: Mapping[str, Any]) -> Page[ClientOut]:
    """Return one page, the newest first; ``filters`` are those of ``ClientListInput``. Two queries."""
    rows = OAuthClient.objects.all()
    if text := filters.get("search", "").strip():
        rows = rows.filter(_named(text))
    if state := filters.get("state"):
        rows = rows.filter(disabled_at__isnull=state == "enabled")
    return paging.newest_first(rows, filters, ordering=ORDERING, show=_all_shown, id_of=lambda client: client.client_id)


def client_by_id(client_id: UUID) -> ClientOut:
    """Return one client. Two queries.

    Raises:
        NotFound: There is none with this id.
    """
    return _shown(_found(OAuthClient.objects.filter(pk=client_id)))


def lock(client_id: UUID) -> OAuthClient:
    """Return one client, locked until the transaction ends.

    Raises:
        NotFound: There is none with this id.
    """
    return _found(OAuthClient.objects.select_for_update().filter(pk=client_id))


def create(*, actor_id: UUID, values: Mapping[str, Any]) -> ClientSecretShown:
    """Make a client, and its secret where it has one.

    Args:
        actor_id: The member of staff, or the machine.
        values: The fields of ``ClientCreateInput``; what is not in it, the preset and the defaults say.

    Raises:
        PermissionDenied: The caller may not make clients, or not such a one.
        ValidationFailed: Naming every bad field.
    """
    rights = rights_of(actor_id)
    rights.require(ADD_CLIENTS)
    given = {name: value for name, value in values.items() if name != "preset"}
    preset = PRESETS.get(values.get("preset", ""))
    begun = preset.initial if preset is not None else {"grants": default_grants()}
    stated = profiles.initial(values["profile"]) if "profile" in values else {}
    fields = {**begun, **stated, **given, "name": names.normalise(values["name"])}
    fields.setdefault("id_token_alg", ID_TOKEN_ALG)
    fields.setdefault("scopes", rules.scopes_for(fields["grants"]))
    client = OAuthClient(**fields)
    _judge(rights, client)
    secret = client_units.create(client, actor_id=actor_id)
    return secret_shown(client, _beside([client])[client.pk], secret)


def change(*, actor_id: UUID, client_id: UUID, values: Mapping[str, Any]) -> ClientSecretShown:
    """Change the fields that are sent; one that keeps its value is no change and leaves no trace in the trail.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client; locked until the transaction ends, so that nothing is undone that others change.
        values: The fields of ``ClientPatchInput``.

    Raises:
        NotFound: There is no such client.
        PermissionDenied: The caller may not change clients, or not this one.
        ValidationFailed: Naming every bad field.
    """
    rights, client = _target(actor_id, client_id)
    given = {**values, **({"name": names.normalise(values["name"])} if "name" in values else {})}
    changed = [name for name, value in given.items() if value != getattr(client, name)]
    secret = client_units.NO_SECRET
    if changed:
        for name in changed:
            setattr(client, name, given[name])
        _judge(rights, client)
        secret = client_units.change(client, fields=changed, actor_id=actor_id)
    return secret_shown(client, _beside([client])[client.pk], secret)


def rotate_secret(*, actor_id: UUID, client_id: UUID, values: Mapping[str, Any]) -> ClientSecretShown:
    """Give the client another secret.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client.
        values: The fields of ``RotateInput``.

    Raises:
        NotFound: There is no such client.
        PermissionDenied: The caller may not change clients, or not this one.
        NoSecret: It proves who it is by something else.
        SecretReplaced: Its newest secret is another one than the caller knows.
    """
    _, client = _target(actor_id, client_id)
    known = values["newest"]
    newest = OAuthClientSecret.objects.filter(client=client).order_by("-created_at", "-id").first()
    if known is not None and (newest is None or newest.pk != known):
        raise SecretReplaced
    try:
        secret = client_units.rotate_secret(client_id, expire_old_in_s=values["expire_old_in_s"], actor_id=actor_id)
    except client_units.NoSecretError as refused:
        raise NoSecret from refused
    return secret_shown(client, _beside([client])[client.pk], secret)


def disable(*, actor_id: UUID, client_id: UUID) -> ClientOut:
    """Refuse the client and all it holds from now on; once it is, nothing happens.

    Of any client, also one that acts without asking: stopping it in a hurry gains nobody anything.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client.

    Raises:
        NotFound: There is no such client.
        PermissionDenied: The caller may not change clients.
    """
    rights_of(actor_id).require(CHANGE_CLIENTS)
    client = lock(client_id)
    client_units.disable(client.pk, actor_id=actor_id)
    return client_by_id(client_id)


def enable(*, actor_id: UUID, client_id: UUID) -> ClientOut:
    """Let the client sign people in again; while it is enabled, nothing happens.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client.

    Raises:
        NotFound: There is no such client.
        PermissionDenied: The caller may not change clients, or not this one.
    """
    _target(actor_id, client_id)
    client_units.enable(client_id, actor_id=actor_id)
    return client_by_id(client_id)


def verify(*, actor_id: UUID, client_id: UUID) -> ClientOut:
    """Note that the caller has looked at a client which none of staff made; of any other, nothing happens.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client.

    Raises:
        NotFound: There is no such client.
        PermissionDenied: The caller may not change clients.
    """
    _target(actor_id, client_id)
    client_units.verify(client_id, actor_id=actor_id)
    return client_by_id(client_id)


def delete(*, actor_id: UUID, client_id: UUID) -> None:
    """Delete the client with its consents, and end its sessions.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client.

    Raises:
        NotFound: There is no such client.
        PermissionDenied: The caller may not delete clients.
    """
    rights_of(actor_id).require(DELETE_CLIENTS)
    client_units.delete(lock(client_id), actor_id=actor_id)


def _named(text: str) -> Q:
    try:
        return Q(pk=UUID(text))
    except ValueError:
        return Q(name__has_part=text)


def _target(actor_id: UUID, client_id: UUID) -> tuple[Rights, OAuthClient]:
    """Return the caller's rights and the client, locked, after the checks common to all changes."""
    rights = rights_of(actor_id)
    rights.require(CHANGE_CLIENTS)
    client = lock(client_id)
    if rules.is_superusers(client):
        rights.require_superuser("change a client that acts for everybody or administers")
    return rights, client


def _found(clients: Any) -> OAuthClient:
    client: OAuthClient | None = clients.first()
    if client is None:
        raise NotFound(_NO_CLIENT)
    return client


def _judge(rights: Rights, client: OAuthClient) -> None:
    """Raise ``PermissionDenied`` for what only a superuser may set, ``ValidationFailed`` for what no client may be."""
    refused = [] if rights.is_superuser else list(rules.reserved(client))
    if refused:
        raise PermissionDenied(f"{refused[0].field}: {refused[0].message}")
    if problems := rules.problems_of(client):
        raise ValidationFailed(errors=problems)


def _all_shown(rows: Iterable[OAuthClient]) -> list[ClientOut]:
    clients = list(rows)
    beside = _beside(clients)
    return [client_out(client, beside[client.pk]) for client in clients]


def _shown(client: OAuthClient) -> ClientOut:
    return client_out(client, _beside([client])[client.pk])


def _beside(clients: Iterable[OAuthClient]) -> Mapping[UUID, Beside]:
    """Return what is shown of each of these clients and is not in its row. One query; where one has a logo, two."""
    with_logo = {client.pk: client.logo_uri for client in clients if client.logo_uri}
    kept = ClientLogo.objects.filter(client__in=with_logo).exclude(media="").values_list("pk", "uri", "fetched_at")
    shown = {key: at for key, uri, at in (kept if with_logo else ()) if uri == with_logo[key]}
    usable = OAuthClientSecret.objects.filter(Q(expires_at=None) | Q(expires_at__gt=clock.now()), client__in=clients)
    secrets: defaultdict[UUID, list[OAuthClientSecret]] = defaultdict(list)
    for one in usable.order_by("-created_at", "-id"):
        secrets[one.client_id].append(one)
    return {client.pk: Beside(secrets[client.pk], shown.get(client.pk)) for client in clients}
