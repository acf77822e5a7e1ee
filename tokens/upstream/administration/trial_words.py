"""What was wrong in a trial of a provider, each in a sentence with its remedy."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from accounts.federation.kinds.kind import ALGORITHMS
from tokens.upstream import answers
from tokens.upstream.id_token import LEEWAY_S
from tokens.upstream.providers import Provider

MOST_SAID: Final = 200  # characters of what a provider says that a page shows


class Fault(NamedTuple):
    """What is wrong, for the page; ``cause`` is for the trail."""

    cause: str
    sentence: str
    remedy: str


_CLIENT: Final = (
    "The provider refuses the client: the client secret is wrong or has expired, or the client ID is not right.",
    "Copy both again from the provider's page of this application. If the secret has expired, make a new one there.",
)
_CODE: Final = (
    "The provider does not exchange its code: it was used, too old, or for another client ID or redirect URI.",
    "Begin the trial again. If it fails again, compare client ID and redirect URI with the provider's page.",
)
_REDIRECT: Final = "The redirect URI of this server is not registered at the provider."
#: By the error of the token endpoint (RFC 6749 §5.2, and GitHub's own).
_AT_TOKEN: Final = {
    "invalid_client": _CLIENT,
    "incorrect_client_credentials": _CLIENT,
    "unauthorized_client": (
        "The provider does not let this client exchange a code.",
        "Allow the authorization code flow for this application at the provider.",
    ),
    "invalid_grant": _CODE,
    "bad_verification_code": _CODE,
}
#: By the error that the browser brings (RFC 6749 §4.1.2.1, OpenID Connect Core §3.1.2.6).
_AT_AUTHORIZATION: Final = {
    "access_denied": (
        "Access was denied at the provider: somebody cancelled there, or may not use this application.",
        "Begin again and accept. If nobody was asked, assign the application to the person at the provider.",
    ),
    "unauthorized_client": (
        "The provider does not let this client ask for a code.",
        "Allow the authorization code flow for this application at the provider, and compare the client ID.",
    ),
    "invalid_client": ("The provider does not know the client ID.", "Copy the client ID again from the provider."),
    "invalid_scope": (
        "The provider does not know a scope that is asked for (openid, email, profile).",
        "Allow these scopes for this application at the provider.",
    ),
    "server_error": ("The provider has failed.", "Begin again in a minute; the provider's own log says more."),
    "temporarily_unavailable": ("The provider is overloaded.", "Begin again in a minute."),
}
_CLOCK: Final = (
    "Compare the clocks of both servers: each has to be set by NTP. This server allows "
    f"{LEEWAY_S} seconds of difference."
)
#: By what did not hold of the ID token, or beside it.
_OF_TOKEN: Final = {
    "alg": (
        f"The ID token is signed by a method that is not accepted here ({', '.join(ALGORITHMS)} are).",
        "Choose RS256 or ES256 for the ID tokens of this application at the provider.",
    ),
    "key": (
        "The ID token is not signed by any of the keys that the provider publishes.",
        "Begin again in a minute, if the provider has just changed its keys. If it fails again, check the issuer.",
    ),
    "iss": ("The ID token names another issuer than this provider's.", "Copy the issuer from the discovery document."),
    "iss_parameter": (
        "The answer names another issuer than this provider's, or none though the provider says that it does.",
        "Compare the issuer. One address of the provider has to be used for everything.",
    ),
    "aud": (
        "The ID token is for another client.",
        "Copy the client ID again from the provider's page of this application.",
    ),
    "azp": ("The ID token was made for another client.", "Compare the client ID with the provider's page."),
    "nonce": ("The ID token does not answer this trial: its nonce is wrong or missing.", "Begin again."),
    "exp": ("The ID token had ended when it came: the clocks differ.", _CLOCK),
    "iat": ("The ID token was made long ago or in the future: the clocks differ.", _CLOCK),
    "auth_time": ("The ID token says that somebody signed in in the future: the clocks differ.", _CLOCK),
    "subject": (
        "The answer does not say who it is, in a form that can be kept.",
        "Have the provider send a subject (sub) of 1 to 255 printable characters.",
    ),
    "userinfo": ("The userinfo endpoint speaks of somebody else.", "Ask the people who run the provider."),
    "access_token": ("The provider has sent no access token.", "Begin again; compare the kind of this provider."),
}
_NO_TOKEN: Final = (
    "The provider's answer has no ID token that can be read.",
    "Check that it is an OpenID Connect provider, and that the scope openid is allowed for this application.",
)
#: By why no answer came, where that has a name of its own.
_SILENT: Final = {
    "discovery": (
        "The discovery document is missing, incomplete or another issuer's.",
        "Copy the issuer exactly as the provider's own document has it, with or without a slash at its end.",
    ),
    "keys": ("The provider's keys are not a key set.", "Ask the people who run the provider."),
    "address": ("An address of the provider is no https address.", "Use https; http is for this machine in DEBUG."),
    "secret": ("The stored secret cannot be used.", "Type the client secret again, for Apple with the whole key file."),
    "TimeoutError": ("The provider does not answer in time.", "Check that this server may reach it."),
    "NotPublicError": (
        "The provider's address is not public.",
        "If it is meant to be inside your network, name the network in IRONAUTH_UPSTREAM_NETWORKS.",
    ),
    "SSLCertVerificationError": (
        "The provider's certificate is not trusted here.",
        "Mend the certificate, or install its authority on this server.",
    ),
}


def _register(slug: str) -> str:
    return f"Register exactly {answers.redirect_uri(slug)} at the provider, without a slash at its end."


def of_refused_request(status: int, *, names_redirect: bool, slug: str) -> Fault:
    """Return what a provider has against a request, as far as its error page tells.

    Args:
        status: Of its answer.
        names_redirect: Whether its page speaks of a redirect.
        slug: The provider's short name.
    """
    if names_redirect:
        return Fault("redirect_uri", f"{_REDIRECT} It answered {status}.", _register(slug))
    sentence = f"The provider refuses the request before anybody signs in ({status}): it may not know the client ID."
    return Fault("client_id", sentence, f"Copy the client ID again from the provider. {_register(slug)}")


def of_answer(answer: Mapping[str, str], slug: str) -> Fault:
    """Return what the error means that the browser has brought; its code and words are the provider's.

    Args:
        answer: Its parameters.
        slug: The provider's short name.
    """
    code, told = shown(answer.get("error", "")), shown(answer.get("error_description", ""))
    if not code:
        return Fault("no_code", "The provider has sent neither a code nor an error.", "Begin again.")
    if "redirect" in f"{code} {told}".lower():
        sentence, remedy = _REDIRECT, _register(slug)
    else:
        sentence, remedy = _AT_AUTHORIZATION.get(
            code, ("The provider has refused.", "Look the error up in the provider's documentation.")
        )
    said = f"{code}: {told}" if told else code
    return Fault(f"refused_there {code}"[:64], f"{sentence} It said “{said}”.", remedy)


def of_refusal(cause: str, said: str, provider: Provider) -> Fault:
    """Return what did not hold.

    Args:
        cause: The check that failed.
        said: The provider's error, of its token endpoint.
        provider: The provider.
    """
    if cause != "code":
        sentence, remedy = _OF_TOKEN.get(cause, _NO_TOKEN)
        return Fault(cause, sentence, remedy)
    code = shown(said)
    if "redirect" in code:
        return Fault("code redirect_uri", _REDIRECT, _register(provider.slug))
    sentence, remedy = _AT_TOKEN.get(code, _CODE)
    return Fault(f"code {code}"[:64], f"{sentence} It said “{code or 'nothing'}”.", remedy)


def of_silence(cause: str) -> Fault:
    """Return why there was no answer.

    Args:
        cause: What failed.
    """
    sentence, remedy = _SILENT.get(
        cause, (f"The provider does not answer as it should ({cause}).", "Check the issuer and that it is reachable.")
    )
    return Fault(cause, sentence, remedy)


def shown(text: str) -> str:
    """Return what a provider says as far as a page may show it: printable, and not long."""
    return "".join(one for one in text if one.isprintable())[:MOST_SAID]
