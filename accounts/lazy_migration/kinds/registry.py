"""Which kinds of old systems can be asked."""

from typing import Final

from accounts.lazy_migration.kinds import auth0, cognito, endpoint, keycloak
from accounts.lazy_migration.kinds.kind import Kind

KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in (endpoint.KIND, keycloak.KIND, auth0.KIND, cognito.KIND)}
