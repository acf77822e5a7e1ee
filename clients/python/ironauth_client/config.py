"""What a resource server knows of its IronAuth server, and the bounds it sets."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import time
from urllib.parse import urlsplit

#: Access tokens of IronAuth are signed by Ed25519, under its older or its newer name (RFC 9864).
ACCESS_ALGORITHMS = ("EdDSA", "Ed25519")
#: ID tokens and logout tokens are signed as the client was registered.
ID_ALGORITHMS = (*ACCESS_ALGORITHMS, "ES256", "RS256")
#: What to do where the server is to be asked about tokens and nobody may ask it.
NOBODY_ASKS = "the server is asked by client_id and client_secret of a client made with --resource-server"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, kw_only=True)
class Config:
    """One IronAuth server as one resource server sees it; all times in seconds.

    Args:
        issuer: The server's issuer, as it writes it in tokens: an https origin, or http on this machine.
        audience: The audience that access tokens must name; the issuer itself unless given.
        client_id: Of the client that introspects and signs people in.
        client_secret: Its secret, if it has one.
        algorithms: The algorithms an access token may be signed with.
        leeway_s: How far the clocks of both servers may differ.
        timeout_s: How long one answer of the server may take.
        keys_s: How long the key set is used before it is fetched again.
        stale_s: How long it is still used when the server does not answer.
        refetch_s: How often at most the key set is fetched because of an unknown ``kid``.
        introspection_s: How long an introspection is remembered: the revocation bound.
        introspections: How many introspections are remembered.
        publishes_metadata: Whether a refusal names the API's metadata (RFC 9728), which the API then serves.
        clock: The unix time.

    Raises:
        ValueError: The issuer is neither https nor of this machine, or a number or an algorithm is out of its range.
    """

    issuer: str
    audience: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    algorithms: tuple[str, ...] = ACCESS_ALGORITHMS
    leeway_s: float = 10.0
    timeout_s: float = 5.0
    keys_s: float = 300.0
    stale_s: float = 3_600.0
    refetch_s: float = 30.0
    introspection_s: float = 10.0
    introspections: int = 10_000
    publishes_metadata: bool = False
    clock: Callable[[], float] = field(default=time, repr=False)

    def __post_init__(self) -> None:
        where = urlsplit(self.issuer)
        if not (where.scheme == "https" or (where.scheme == "http" and where.hostname in LOOPBACK)) or not where.netloc:
            raise ValueError(f"issuer must be an https address, or http on this machine: {self.issuer!r}")
        if not self.algorithms or not set(self.algorithms) <= set(ID_ALGORITHMS):
            raise ValueError(f"algorithms must be some of {ID_ALGORITHMS}")
        if min(self.leeway_s, self.refetch_s, self.introspection_s) < 0 or self.introspections < 1:
            raise ValueError("leeway_s, refetch_s and introspection_s must not be negative, introspections at least 1")
        if not 0 < self.keys_s <= self.stale_s or self.timeout_s <= 0:
            raise ValueError("timeout_s and keys_s must be positive, stale_s not less than keys_s")

    @property
    def may_ask(self) -> bool:
        """Whether there is a client that may ask the server about tokens (RFC 7662)."""
        return bool(self.client_id and self.client_secret)

    @property
    def expected_audience(self) -> str:
        """The audience that access tokens must name."""
        return self.audience or self.issuer
