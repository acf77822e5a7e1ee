"""What can go wrong with an act on a client."""

from ironauth.infrastructure.core.errors import Conflict


class NoSecret(Conflict):
    """The client proves who it is by something else than a secret."""

    code = "client_has_no_secret"
    title = "No secret"
    detail = "This client proves who it is by something else: it has no secret to replace."


class SecretReplaced(Conflict):
    """The client's newest secret is not the one that the caller knows."""

    code = "client_secret_replaced"
    title = "Secret replaced"
    detail = "The client has a newer secret than `newest`: read the client again before you replace that one."
