"""Microsoft Entra ID: people are known by tenant and object id. A tenant's staff can type any ``email`` (nOAuth)."""

import re
from collections.abc import Mapping
from typing import Any, Final

from accounts.federation.kinds.kind import TENANT, ProviderKind, UpstreamPerson, subject_of

_ID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TENANT: Final = re.compile(rf"/({_ID})(?:/|\Z)")
_SUBJECT: Final = re.compile(rf"(?:({_ID}):)?({_ID})")


class Entra(ProviderKind):
    """One tenant by its issuer, or all of them: then the discovery document has a template as issuer."""

    name = "entra"
    label = "Microsoft Entra ID, by the tenant's issuer"
    asks_userinfo = False  # what proves a domain (xms_edov) is in the ID token, and of its address alone

    def is_issuer(self, claimed: str, configured: str, claims: Mapping[str, Any]) -> bool:
        """Tell whether the issuer is the tenant's, or of the template with the token's own tenant in it."""
        return claimed == configured.replace(TENANT, subject_of(claims, "tid"))

    def told_elsewhere(self, configured: str, subject: str) -> tuple[str, str] | None:
        """Return issuer and subject of an object id, with its tenant before it where the issuer has none.

        Other systems often keep ``sub``, which is another one for each application: it names nobody here.
        """
        told, of_issuer = _SUBJECT.fullmatch(subject), _TENANT.search(configured)
        tenant = (told[1] or (of_issuer and of_issuer[1])) if told else None
        if told is None or not tenant or (of_issuer and of_issuer[1] != tenant):
            return None
        return configured.replace(TENANT, tenant), f"{tenant}:{told[2]}"

    def person(self, claims: Mapping[str, Any]) -> UpstreamPerson:
        """Return the person; the address is verified where the tenant has proved the domain (``xms_edov``)."""
        subject = f"{subject_of(claims, 'tid')}:{subject_of(claims, 'oid')}"
        verified = claims.get("xms_edov") in (True, "1", "true", 1)
        return super().person(claims)._replace(subject=subject, email_verified=verified)
