"""What can go wrong with another provider; codes are part of the HTTP contract."""

from django.utils.translation import gettext_noop as _

from ironauth.infrastructure.core import errors


class UpstreamRefused(errors.NotAuthenticated):
    """401: the provider did not say who it is, or what it said does not hold. The cause is in the trail."""

    code = "upstream_refused"
    title = "Sign-in with another provider failed"
    detail = _("The other provider did not confirm who you are. Try again, or sign in another way.")

    def __init__(self, cause: str = "", detail: str | None = None, *, said: str = "") -> None:
        super().__init__(detail)
        self.cause = cause
        self.said = said  # the provider's own error code, for the operator who tries it


class UpstreamUnavailable(errors.Unavailable):
    """503: the provider did not answer in time, or not as it should."""

    code = "upstream_unavailable"
    title = "The other provider does not answer"
    detail = _("The other provider does not answer at the moment. Try again in a minute, or sign in another way.")

    def __init__(self, cause: str = "") -> None:
        super().__init__()
        self.cause = cause


class IdentityTaken(errors.Conflict):
    """409: the identity belongs to another account, or the person has one of this provider already."""

    code = "identity_taken"
    title = "Identity in use"
    detail = _("This identity belongs to another account here, or you have connected another one of the same provider.")
