"""Which provider here an identity of another system belongs to, as ``--identities ALIAS=SLUG`` says."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from accounts import email_address as emails
from accounts.federation.kinds.registry import KINDS
from accounts.federation.models import UpstreamProvider
from accounts.transfer.records import Link, MalformedError, Note, ToldIdentity

#: Aliases that the summary names; a file may have any number of them.
_MOST_ALIASES: Final = 50
_ALIAS_CHARACTERS: Final = 64
_OTHERS: Final = "others"


class Matched(NamedTuple):
    """What of somebody's identities can be linked, at most one of each provider, and why others cannot."""

    links: tuple[Link, ...] = ()
    notes: frozenset[Note] = frozenset()


class IdentityMap:
    """The operator's word on which name in the file is which provider here.

    Attributes:
        unmapped: How often the file names each provider that nobody has mapped.
    """

    def __init__(self, pairs: Iterable[str] = ()) -> None:
        """Read the providers. One query.

        Args:
            pairs: ``ALIAS=SLUG`` each; an alias is the name of a provider in the file.

        Raises:
            MalformedError: A pair has another form, an alias comes twice, or no provider here has the slug.
        """
        self.unmapped: Counter[str] = Counter()
        self._providers = list(UpstreamProvider.objects.order_by("slug"))
        by_slug = {provider.slug: provider for provider in self._providers}
        self._by_alias: dict[str, UpstreamProvider] = {}
        for pair in pairs:
            alias, is_pair, slug = pair.rpartition("=")
            if not is_pair or not alias or alias in self._by_alias:
                raise MalformedError(f"--identities {pair}: say ALIAS=SLUG, and each alias once.")
            if slug not in by_slug:
                here = ", ".join(by_slug) or "none; add one by manage.py upstream_provider add"
                raise MalformedError(f"--identities {pair}: no provider here is called {slug!r}. There are: {here}.")
            self._by_alias[alias] = by_slug[slug]

    def match(self, told: Iterable[ToldIdentity]) -> Matched:
        """Return what can be linked.

        Args:
            told: Somebody's identities, as the file has them.
        """
        links: dict[UUID, Link] = {}
        notes: set[Note] = set()
        for one in told:
            found = self._link(one)
            if isinstance(found, Note):
                notes.add(found)
            elif found != links.setdefault(found.provider_id, found):
                notes.add(Note.IDENTITY_SECOND)
        return Matched(tuple(links.values()), frozenset(notes))

    def _link(self, told: ToldIdentity) -> Link | Note:
        mapped = self._by_alias.get(told.provider)
        email = told.email if len(told.email) <= emails.MAX_LENGTH and told.email.isprintable() else ""
        # Without the operator's word only an issuer names a provider: what an alias means, the old system alone knows.
        asked = [mapped] if mapped else self._providers if told.issuer else []
        found = [
            Link(provider.pk, *there, email)
            for provider in asked
            if (there := KINDS[provider.kind].told_elsewhere(provider.issuer, told.subject))
            and told.issuer in ("", there[0])
        ]
        if len(found) == 1:
            return found[0]
        if mapped:
            return Note.IDENTITY_FORM
        name = "".join(c for c in told.provider or told.issuer if c.isprintable())[:_ALIAS_CHARACTERS]
        self.unmapped[name if name in self.unmapped or len(self.unmapped) < _MOST_ALIASES else _OTHERS] += 1
        return Note.IDENTITY
