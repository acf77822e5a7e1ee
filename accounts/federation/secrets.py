"""The client secret at a provider, sealed under the master keys and bound to the provider's row."""

from typing import Final

from accounts.federation.models import UpstreamProvider
from accounts.mfa.second_factor import Resealed
from ironauth.infrastructure.crypto import sealing
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError, newest_master_key_id, register_purpose
from ironauth.infrastructure.crypto.sealing import SealBrokenError

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


def reseal() -> Resealed:
    """Seal every provider's secret under the newest master key; safe at any time: one changed meanwhile stays."""
    done = left = 0
    for row in UpstreamProvider.objects.exclude(master_key_id=newest_master_key_id()):
        same = UpstreamProvider.objects.filter(pk=row.pk, sealed_secret=bytes(row.sealed_secret))
        try:
            seal_into(row, unsealed(row))
        except (MasterKeyMissingError, SealBrokenError):
            left += 1
        else:
            done += same.update(master_key_id=row.master_key_id, sealed_secret=row.sealed_secret)
    return Resealed(done, left)
