"""Microsoft Entra ID: people are known by tenant and object id. A tenant's staff can type any ``email`` (nOAuth)."""

from collections.abc import Mapping
from typing import Any

from accounts.federation.kinds.kind import TENANT, ProviderKind, UpstreamPerson, subject_of


class Entra(ProviderKind):
    """One tenant by its issuer, or all of them: then the discovery document has a template as issuer."""

    name = "entra"
    label = "Microsoft Entra ID, by the tenant's issuer"
    asks_userinfo = False  # what proves a domain (xms_edov) is in the ID token, and of its address alone

    def is_issuer(self, claimed: str, configured: str, claims: Mapping[str, Any]) -> bool:
        """Tell whether the issuer is the tenant's, or of the template with the token's own tenant in it."""
        return claimed == configured.replace(TENANT, subject_of(claims, "tid"))

    def person(self, claims: Mapping[str, Any]) -> UpstreamPerson:
        """Return the person; the address is verified where the tenant has proved the domain (``xms_edov``)."""
        subject = f"{subject_of(claims, 'tid')}:{subject_of(claims, 'oid')}"
        verified = claims.get("xms_edov") in (True, "1", "true", 1)
        return super().person(claims)._replace(subject=subject, email_verified=verified)
