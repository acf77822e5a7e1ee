"""What can go wrong with an act on signing keys."""

from ironauth.infrastructure.core.errors import Conflict


class RotationRefused(Conflict):
    """The rotation would break verification somewhere, or there is no such key in use; the detail has the remedy."""

    code = "rotation_refused"
    title = "Not rotated"
    detail = "It is too early: not every client can know the next key yet, or there is none, or no such key is in use."
