"""A page of /oauth/ as an HTTP response, and the ways on from a page: to the client, another provider, this site.

Referrer-Policy is same-origin: nothing of ours goes to a client in a Referer, and a form of ours still says its Origin,
which no-referrer would make ``null``. No Cross-Origin-Opener-Policy: a client that opens these pages in a pop-up waits
there for its answer.

Where forms may lead (``form-action``, CSP Level 3 §6.4.2): here, and on to the client alone. Chromium judges every
redirect behind a form. So the policy names the client's own origins: that of the address the answer goes to, and those
of the other addresses that staff have registered for it. A client whose callback sends people on to another origin
registers an address there, for instance its ``post_logout_redirect_uri``.
"""

import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from django.conf import settings
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.utils.html import escape
from django.utils.translation import get_language

from accounts import email_address as emails
from ironauth.infrastructure.http import brand
from tokens.clients.errors import OAuthError
from tokens.clients.registry import Client
from tokens.oauth.authorize import request as authorization_request
from tokens.oauth.authorize.request import Target
from tokens.oauth.signed import responses as response_jwts
from tokens.protocol import SIGNED_MODES, ResponseMode
from tokens.upstream import providers

FOLDER: Final = "tokens/oauth/"
#: Where forms of a page may lead: to this server; nowhere.
HERE: Final = "'self'"
NOWHERE: Final = "'none'"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action {targets}; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
#: Stands for the address while a page that goes on is rendered; of characters that no escaping changes; random.
_MARK: Final = secrets.token_urlsafe(24)


def answer(target: Target, *, by_form: bool, **parameters: str) -> HttpResponse:
    """Return the answer to the client, with its ``state`` and our ``iss`` (RFC 9207 §2): a redirect, or a form.

    Args:
        target: Where the answer goes.
        by_form: Whether a form of our pages leads there.
        parameters: What the client is told.
    """
    told = {**parameters, **({"state": target.state} if target.state else {})}
    if target.response_mode in SIGNED_MODES:
        return Unsigned(target, told, by_form=by_form)
    return _delivered(target, {**told, "iss": settings.IRONAUTH_ISSUER}, by_form=by_form)


class Unsigned(HttpResponse):
    """The place of an answer that is to be a JWT (JARM), until ``signed`` has made it; by itself it says nothing.

    Attributes:
        target: Where the answer goes.
        told: What the client is told.
        by_form: Whether a form of our pages leads there.
    """

    def __init__(self, target: Target, told: dict[str, str], *, by_form: bool) -> None:
        super().__init__(status=503)
        self.target, self.told, self.by_form = target, told, by_form


async def signed(answer: Unsigned) -> HttpResponse:
    """Return the answer, signed, with the cookies that were given on the way; no query where the client is known.

    Args:
        answer: What stands in its place.

    Raises:
        SigningKeyMissing: (503) there is no key to sign with.
        Unanswerable: The client has just been disabled.
    """
    client = await authorization_request.enabled_client(answer.target.client_id)
    response = await response_jwts.authorization_response(client, answer.told)
    made = _delivered(answer.target, {"response": response}, by_form=answer.by_form)
    made.cookies.update(answer.cookies)
    for name, value in answer.headers.items():
        if name != "Content-Type":
            made.headers.setdefault(name, value)
    return made


def _delivered(target: Target, everything: Mapping[str, str], *, by_form: bool) -> HttpResponse:
    """Return the redirect, or the form, that brings an answer to the client.

    Args:
        target: Where the answer goes.
        everything: Its parameters, complete.
        by_form: Whether a form of our pages leads there.
    """
    if target.response_mode in (ResponseMode.FORM_POST, ResponseMode.FORM_POST_JWT):
        context = {"action": target.redirect_uri, "parameters": everything}
        return render("form_post.html", context, targets=_targets_of_answer(target.redirect_uri))
    return _on_to(target.redirect_uri, everything, by_form=by_form)


def refusal(target: Target, reason: OAuthError, *, by_form: bool) -> HttpResponse:
    """Return an error as answer to the client (RFC 6749 §4.1.2.1).

    Args:
        target: Where the answer goes.
        reason: The error.
        by_form: Whether a form of our pages leads there.
    """
    return answer(target, by_form=by_form, error=reason.error, error_description=reason.detail)


def repeated(path: str, query: str) -> HttpResponse:
    """Return the redirect that makes a GET of what was posted.

    Args:
        path: Of this site.
        query: What was posted, encoded as a query.
    """
    return _see_other(f"{path}?{query}")


def signed_out(redirect_uri: str, state: str, *, by_form: bool) -> HttpResponse:
    """Return the way on to where the client wants its people to be after they have signed out; else a page of ours.

    Args:
        redirect_uri: Where that is; "" for nowhere.
        state: The client's own, given back there; "" for none.
        by_form: Whether a form of our pages leads there.
    """
    if not redirect_uri:
        return render("signed_out.html", {}, targets=NOWHERE)
    return _on_to(redirect_uri, {"state": state} if state else {}, by_form=by_form)


def on_to_provider(address: str) -> HttpResponse:
    """Return the way on to another provider: a page that goes there, since a form's policy does not name it."""
    text = _go_on_page(get_language() or "", msgspec.msgpack.encode(site_facts())).replace(_MARK, escape(address))
    return html(text, targets=NOWHERE, headers={"Referrer-Policy": "no-referrer"})


def with_clean_address(response: HttpResponse) -> HttpResponse:
    """Have a page forget the query of its address, which another provider has sent; a redirect has none of it.

    Without JavaScript it stays in the address bar. It is good for nothing there: the state is used up and its browser's
    alone, and the code is exchanged, or cannot be by anybody without the verifier, which never leaves this server (RFC
    7636). A page that is loaded again says that it has expired.

    Args:
        response: The page, or any other answer.
    """
    if response.headers.get("Content-Type", "").startswith("text/html"):
        script = f'<script type="module" src="{static("tokens/clean_address.js")}"></script>\n</head>'
        response.content = response.content.replace(b"</head>", script.encode(), 1)
    return response


def on_to_account(path: str) -> HttpResponse:
    """Return the redirect to a path of this site that somebody has signed in for."""
    return _see_other(path)


def _on_to(address: str, parameters: Mapping[str, str], *, by_form: bool) -> HttpResponse:
    """Return the redirect to a client; a page that goes there where a form's policy cannot name the client."""
    location = _with(address, parameters)
    if not by_form or not _is_nameless(address):
        return _see_other(location)
    return render("go_on.html", {"address": location}, targets=NOWHERE, headers={"Referrer-Policy": "no-referrer"})


def _with(address: str, parameters: Mapping[str, str]) -> str:
    """Return a client's address with parameters of ours after its own."""
    joint = "&" if "?" in address else "?"
    return f"{address}{joint if parameters else ''}{urlencode(parameters, quote_via=quote)}"


def _see_other(location: str) -> HttpResponse:
    """Return 303, which no browser answers by sending the form on (RFC 9700 §4.12)."""
    response = HttpResponse(status=303, headers={"Location": location, "Referrer-Policy": "no-referrer"})
    del response.headers["Content-Type"]
    return response


@lru_cache(maxsize=16)  # of each language one, and of what the site said before
def _go_on_page(_language: str, site: bytes) -> str:
    """Return the page that goes on to somewhere, with a mark where the address belongs."""
    return render_to_string(f"{FOLDER}go_on.html", {**msgspec.msgpack.decode(site), "address": _MARK})


def render(
    template: str,
    context: Mapping[str, Any],
    *,
    targets: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> HttpResponse:
    """Return a page, rendered.

    Args:
        template: The name of its template.
        context: What the template sees, beside `site_facts`.
        targets: Where its forms may lead, as sources of a policy.
        status: Of the answer.
        headers: Of the answer, in place of those of every page.
    """
    text = render_to_string(FOLDER + template, {**site_facts(), **context})
    return html(text, targets=targets, status=status, headers=headers)


def site_facts() -> dict[str, Any]:
    """Return what the pages say of this deployment, and to this browser: what is kept is kept for those alike."""
    return {
        "banner": brand.banner(),
        "site_name": settings.IRONAUTH_BRAND_NAME,
        "proof_required": emails.is_proof_required(),
        "sign_up_open": settings.IRONAUTH_SIGN_UP == "open",
        "sign_in_by_email": settings.IRONAUTH_SIGN_IN_BY_EMAIL,
        "identifier_first": settings.IRONAUTH_SIGN_IN_FORM == "identifier_first",
        "providers": providers.buttons(),
    }


def html(text: str, *, targets: str, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a page whose text is there, with the headers of every page of /oauth/.

    Args:
        text: The HTML.
        targets: Where its forms may lead, as sources of a policy.
        status: Of the answer.
        headers: Of the answer, in place of those of every page.
    """
    return HttpResponse(
        text,
        status=status,
        headers={
            "Cache-Control": "no-store",
            "Content-Security-Policy": _POLICY.format(targets=targets),
            "Referrer-Policy": "same-origin",
            "Permissions-Policy": "publickey-credentials-create=(self), publickey-credentials-get=(self)",
            **(headers or {}),
        },
    )


def targets_of_client(redirect_uri: str, client: Client | None) -> str:
    """Return where forms of a page for a client may lead, as sources of a policy.

    Args:
        redirect_uri: Where the way through the pages ends; "" for nowhere.
        client: None where there is none.
    """
    if not redirect_uri:
        return HERE
    registered = (*client.redirect_uris, *client.post_logout_redirect_uris) if client is not None else ()
    return _sources(redirect_uri, registered)


def _targets_of_answer(redirect_uri: str) -> str:
    """Return the same for the form that is the answer.

    A policy has no way to name an IPv6 address: then it names the scheme.
    """
    return f"{HERE} {urlsplit(redirect_uri).scheme}:" if _is_nameless(redirect_uri) else _sources(redirect_uri, ())


def _is_nameless(uri: str) -> bool:
    """Return whether a policy cannot name the address's origin: its host is an IPv6 address (CSP Level 3 §2.3.1)."""
    return urlsplit(uri).netloc.startswith("[")


@lru_cache(maxsize=256)  # asked for every page; a site has a few clients with a few addresses
def _sources(redirect_uri: str, registered: tuple[str, ...]) -> str:
    sources = [_source(uri) for uri in (redirect_uri, *registered) if not _is_nameless(uri)]
    return " ".join(dict.fromkeys((HERE, *sources)))


def _source(uri: str) -> str:
    """Return the origin of an address; the scheme of one that an application on a device claims by its scheme."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else f"{parts.scheme}:"
