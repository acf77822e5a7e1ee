"""Google: one issuer; ``email_verified`` is what Google has proved."""

from accounts.federation.kinds.kind import ProviderKind


class Google(ProviderKind):
    """Google accounts."""

    name = "google"
    label = "Google"
    issuer = "https://accounts.google.com"
    verifies_email = True
    asks_anew = False  # it knows neither, and does not say when somebody signed in
