"""What can go wrong with an act on a sign-in provider."""

from ironauth.infrastructure.core.errors import Conflict


class ProviderEnabled(Conflict):
    """People may sign in with the provider: it is switched off before it is deleted."""

    code = "provider_enabled"
    title = "Provider enabled"
    detail = "People may sign in with this provider: switch it off first, which says who is left without a way in."
