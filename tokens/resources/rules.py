"""What a registered API may be: every rule over its fields, wherever they are typed (the admin, a command, the API)."""

from collections.abc import Iterable
from typing import Final

from django.conf import settings

from accounts import names
from accounts.access.scopes import SCOPES as ADMINISTRATION
from ironauth.config.table import LIMITS
from ironauth.infrastructure.core.errors import FieldError
from tokens.keys.models import SigningKey
from tokens.protocol import Scope, problem_of_scopes
from tokens.resources import identifiers
from tokens.resources.models import NAME_CHARACTERS, ApiResource

MOST_SCOPES: Final = 50  # of one API; a consent page lists those that are asked for
TAKEN: Final = "An API with this identifier is registered already: change that one."
#: Scopes that mean something here, and are no API's own.
_OURS: Final = frozenset(Scope) | ADMINISTRATION.keys()


def problems_of(resource: ApiResource) -> list[FieldError]:
    """Return everything that is wrong with an API's fields, each with its remedy; nothing for a good one.

    1 query for the identifier of a new one, 1 for an algorithm other than Ed25519.
    """
    return [
        *_identifier(resource),
        *names.problems_of(resource.name, most=NAME_CHARACTERS, noun="API"),
        *_scopes(resource),
        *_signed(resource),
        *_lifetime(resource),
    ]


def _problem(field: str, code: str, message: str) -> FieldError:
    return FieldError(field=field, code=code, message=message)


def _identifier(resource: ApiResource) -> Iterable[FieldError]:
    problem = identifiers.problem_of(resource.identifier)
    if problem is not None:
        yield _problem("identifier", "identifier", problem)
    elif ApiResource.objects.filter(identifier=resource.identifier).exclude(pk=resource.pk).exists():
        yield _problem("identifier", "taken", TAKEN)


def _scopes(resource: ApiResource) -> Iterable[FieldError]:
    given = resource.scopes
    problem = problem_of_scopes(given)
    if problem is not None:
        yield _problem("scopes", "scopes", problem)
    elif len(given) > MOST_SCOPES:
        yield _problem("scopes", "too_many", f"At most {MOST_SCOPES} scopes: drop some.")
    elif ours := sorted(_OURS.intersection(given)):
        yield _problem("scopes", "ours", f"These mean something of this server's own API: leave out {', '.join(ours)}.")


def _signed(resource: ApiResource) -> Iterable[FieldError]:
    """Find an algorithm that nothing here signs with. Ed25519 every installation has."""
    alg = resource.signing_alg
    if alg not in ApiResource.SigningAlg.values:
        yield _problem(
            "signing_alg", "choice", f"This is none of the choices: write {', '.join(ApiResource.SigningAlg.values)}."
        )
    elif alg != ApiResource.SigningAlg.ED25519 and not (
        SigningKey.objects.filter(family=alg, state=SigningKey.State.ACTIVE).exists()
    ):
        yield _problem(
            "signing_alg",
            "no_key",
            f"There is no key for {alg}: run `manage.py create_signing_key --alg {alg}` first, or choose ed25519.",
        )


def _lifetime(resource: ApiResource) -> Iterable[FieldError]:
    """Find seconds out of bounds: a key that has been replaced is kept for as long as the setting says."""
    low, high = LIMITS["IRONAUTH_ACCESS_TOKEN_S"].least, settings.IRONAUTH_ACCESS_TOKEN_S
    if resource.access_token_s is not None and not low <= resource.access_token_s <= high:
        yield _problem(
            "access_token_s",
            "range",
            f"Write {low:,} to {high:,} seconds (the most is IRONAUTH_ACCESS_TOKEN_S), or nothing for the setting's "
            "own.",
        )
