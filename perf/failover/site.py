"""Two nodes behind nginx on a cluster of three database machines, with either way to the primary."""

from contextlib import ExitStack
from pathlib import Path
from typing import Final

from perf.failover.machines import Cluster, addresses
from perf.nodes import network
from perf.nodes.site import CHEAP_HASH, HOST, PORT, Site
from perf.rig.site_setup import site_environment

ROUTES: Final = ("libpq", "haproxy")


class ClusterSite(Site):
    """The site of ``perf.nodes``, with a cluster in the place of its one PostgreSQL and its one Redis."""

    cluster: Cluster

    def by(self, route: str) -> None:
        """See that both nodes reach the database that way."""
        self.start(DATABASE_URL=self.cluster.url(route))

    def _storage(self, stack: ExitStack) -> dict[str, str]:
        self.cluster = Cluster(self.folder, stack)
        sentinels = ",".join(f"{address}:26379" for address in addresses())
        return site_environment(self.folder, port=PORT, hash_threads=2) | CHEAP_HASH | {
            "ALLOWED_HOSTS": HOST,
            "IRONAUTH_ISSUER": f"https://{HOST}",
            "IRONAUTH_TRUSTED_PROXIES": network.address("web"),
            "IRONAUTH_ACCESS_LOG": "0",
            "DATABASE_URL": self.cluster.url("libpq"),
            "REDIS_URL": f"redis+sentinel://{sentinels}/ironauth/0",
        }  # fmt: skip


def site(folder: Path, stack: ExitStack, *, people: int, workers: int) -> ClusterSite:
    """Return the site with so many people; ``stack`` ends it."""
    return ClusterSite(folder, stack, people=people, workers=workers)
