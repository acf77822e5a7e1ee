"""Which kinds of providers there are."""

from typing import Final

from accounts.federation.kinds.apple import Apple
from accounts.federation.kinds.entra import Entra
from accounts.federation.kinds.github import GitHub
from accounts.federation.kinds.google import Google
from accounts.federation.kinds.keycloak import Keycloak
from accounts.federation.kinds.kind import ProviderKind

KINDS: Final[dict[str, ProviderKind]] = {
    kind.name: kind for kind in (ProviderKind(), Google(), Entra(), Apple(), Keycloak(), GitHub())
}
