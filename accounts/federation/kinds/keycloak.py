"""Keycloak: the issuer of a realm. Whether a realm proves addresses is the operator's to know."""

from accounts.federation.kinds.kind import ProviderKind


class Keycloak(ProviderKind):
    """A realm of Keycloak's."""

    name = "keycloak"
    label = "Keycloak, by the realm's issuer"
