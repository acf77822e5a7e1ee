"""The client secret at a provider, sealed under the master keys and bound to the provider's row."""

from typing import Final

from accounts.federation.models import UpstreamProvider
from ironauth.infrastructure.crypto import sealing
from ironauth.infrastructure.crypto.master_keys import newest_master_key_id, register_purpose
from ironauth.infrastructure.crypto.resealing import Resealed, reseal_rows

PURPOSE: Final = register_purpose("ironauth upstream client secret")


def seal_into(provider: UpstreamProvider, secret: str) -> None:
    """Set the provider's secret; it is stored with the row.

    Args:
        provider: The row; it is not saved here.
        secret: The client secret in clear.
    """
    provider.master_key_id, provider.sealed_secret = sealing.seal(secret.encode(), PURPOSE, provider.pk.bytes)


def unsealed(provider: UpstreamProvider) -> str:
    """Return the provider's secret.

    Raises:
        MasterKeyMissingError: Its master key has left the settings.
        SealBrokenError: It was damaged, or is another provider's.
    """
    return sealing.unseal(provider.master_key_id, bytes(provider.sealed_secret), PURPOSE, provider.pk.bytes).decode()


def reseal(*, batch: int) -> Resealed:
    """Seal every provider's secret under the newest master key; safe at any time: one changed meanwhile stays.

    Args:
        batch: Rows in a transaction.
    """
    older = UpstreamProvider.objects.exclude(master_key_id=newest_master_key_id())
    return reseal_rows(older, _reseal, batch=batch)


def _reseal(row: UpstreamProvider) -> bool:
    same = UpstreamProvider.objects.filter(pk=row.pk, sealed_secret=bytes(row.sealed_secret))
    seal_into(row, unsealed(row))
    return same.update(master_key_id=row.master_key_id, sealed_secret=row.sealed_secret) > 0
