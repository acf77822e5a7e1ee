"""The salt of pairwise subjects (OpenID Connect Core §8.1): one for this installation, made when first needed.

Without it no pairwise client could be told who its people are. So it is in the database, and in its backups, sealed as
signing keys are: a copy of the database alone does not tell who the same person is to two clients.
"""

import os
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from django.db import models
from django.utils.functional import cached_property

from ironauth.infrastructure.crypto import sealing
from ironauth.infrastructure.crypto.master_keys import keyed_mac, newest_master_key_id, register_purpose

PURPOSE: Final = register_purpose("ironauth pairwise salt")
SALT_BYTES: Final = 32  # 256 bits
KEY_BYTES: Final = 16  # of AES-128, which maps one id to one other
ONLY: Final = 1
_BOUND_TO: Final = b"pairwise salt"


class PairwiseSalt(models.Model):
    """The salt, in one row that never changes but for the master key it is sealed under."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY, editable=False)
    sealed = models.BinaryField()
    master_key_id = models.CharField(max_length=16)

    class Meta:
        """Nobody has a use for this row but the subjects."""

        default_permissions = ()
        constraints = [models.CheckConstraint(condition=models.Q(id=ONLY), name="tokens_one_pairwise_salt")]

    def __str__(self) -> str:
        return "salt"

    @cached_property
    def salt(self) -> bytes:
        """Return the salt itself. Raises ``MasterKeyMissingError`` or ``SealBrokenError`` when it does not open."""
        return sealing.unseal(self.master_key_id, bytes(self.sealed), PURPOSE, _BOUND_TO)


def make_salt() -> None:
    """Make the salt unless there is one; a unit of work, 2 queries at most."""
    if not PairwiseSalt.objects.filter(pk=ONLY).exists():
        master_key_id, sealed = sealing.seal(os.urandom(SALT_BYTES), PURPOSE, _BOUND_TO)
        # Of two at once one is ignored, and both have the other's.
        PairwiseSalt.objects.bulk_create(
            [PairwiseSalt(sealed=sealed, master_key_id=master_key_id)], ignore_conflicts=True
        )


def reseal() -> bool:
    """Seal the salt by the newest master key; return whether it was under another. A unit of work, 2 queries."""
    found = PairwiseSalt.objects.exclude(master_key_id=newest_master_key_id()).first()
    if found is None:
        return False
    found.master_key_id, found.sealed = sealing.seal(found.salt, PURPOSE, _BOUND_TO)
    found.save(update_fields=["master_key_id", "sealed"])
    return True


def only_host(uris: Sequence[str]) -> str:
    """Return the one host of a client's redirect URIs, its sector when it names none (§8.1); "" for several or none."""
    hosts = {urlsplit(uri).hostname or "" for uri in uris}
    return hosts.pop() if len(hosts) == 1 else ""


def sector_key(sector: str) -> bytes:
    """Return the key of a sector, which makes its clients' subjects; a unit of work, 1 query.

    Raises:
        PairwiseSalt.DoesNotExist: There is no salt: saving a pairwise client makes it.
    """
    salt = PairwiseSalt.objects.get(pk=ONLY).salt
    return keyed_mac(salt, b"sector\0" + sector.encode())[:KEY_BYTES]
