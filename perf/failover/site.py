"""Two nodes behind nginx on a cluster of three database machines, with either way to the primary."""

import functools
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from perf.failover.machines import Cluster, addresses
from perf.load.oauth_messages import make_client
from perf.nodes import network
from perf.nodes.site import CHEAP_HASH, HOST, PORT, Site
from perf.rig.site_setup import site_environment

ROUTES: Final = ("libpq", "haproxy")


class ClusterSite(Site):
    """The site of ``perf.nodes``, with a cluster in the place of its one PostgreSQL and its one Redis."""

    cluster: Cluster
    issuer = f"https://{HOST}"
    _environment: dict[str, str]

    def by(self, route: str) -> None:
        """See that both nodes reach the database that way."""
        self.start(DATABASE_URL=self.cluster.url(route))

    @functools.cached_property
    def client(self) -> dict[str, str]:
        """The application at which people sign in: its id and secret."""
        return make_client(self._environment)

    def _storage(self, stack: ExitStack) -> dict[str, str]:
        self.cluster = Cluster(self.folder, stack)
        sentinels = ",".join(f"{address}:26379" for address in addresses())
        self._environment = site_environment(self.folder, port=PORT, hash_threads=2) | CHEAP_HASH | {
            "ALLOWED_HOSTS": HOST,
            "IRONAUTH_ISSUER": self.issuer,
            "IRONAUTH_TRUSTED_PROXIES": network.address("web"),
            "IRONAUTH_ACCESS_LOG": "0",
            "IRONAUTH_MAX_SESSIONS_PER_USER": "1000",  # the two at the application sign in again and again
            "DATABASE_URL": self.cluster.url("libpq"),
            "REDIS_URL": f"redis+sentinel://{sentinels}/ironauth/0",
        }  # fmt: skip
        return self._environment


def site(folder: Path, stack: ExitStack, *, people: int, workers: int) -> ClusterSite:
    """Return the site with so many people; ``stack`` ends it."""
    return ClusterSite(folder, stack, people=people, workers=workers)
