"""What can go wrong with access that is kept."""

from ironauth.infrastructure.core.errors import Conflict


class NoUpstreamToken(Conflict):
    """409: no access is kept that works: it never was, it has ended, or it was taken back at the provider."""

    code = "no_upstream_token"
    title = "No access at the provider"
    detail = "No access to this person's account at the provider is kept: have them sign in with the provider again."
