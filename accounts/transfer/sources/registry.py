"""Which systems people can come from."""

from typing import Final

from accounts.transfer.sources import Source, auth0, cognito, django, firebase, jsonl, keycloak, supabase

SOURCES: Final[dict[str, Source]] = {
    source.name: source
    for source in (
        django.SOURCE,
        keycloak.SOURCE,
        auth0.SOURCE,
        firebase.SOURCE,
        supabase.SOURCE,
        cognito.SOURCE,
        jsonl.SOURCE,
    )
}
