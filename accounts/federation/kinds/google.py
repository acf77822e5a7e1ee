"""Google: one issuer; ``email_verified`` is what Google has proved."""

from collections.abc import Mapping
from typing import ClassVar

from accounts.federation.kinds.kind import ProviderKind


class Google(ProviderKind):
    """Google accounts."""

    name = "google"
    label = "Google"
    issuer = "https://accounts.google.com"
    verifies_email = True
    offline_parameters: ClassVar[Mapping[str, str]] = {"access_type": "offline"}
    asks_anew = False  # it knows neither, and does not say when somebody signed in
