"""What other applications hear of memberships, in the transaction of the change."""

from typing import Final

from django.dispatch import Signal

#: In the transaction in which people lose a membership or get another role, also when the organisation is deleted.
#: Sent with ``organization_id`` (UUID), ``user_ids`` (list of UUIDs) and ``role``, the new one; None: they are no
#: members any more. Not sent when an account ends: its sessions end with it (``accounts.users.invariants``).
membership_changed: Final = Signal()
