"""The pages of /oauth/ and the answers to clients, as HTTP responses.

Referrer-Policy is same-origin: nothing of ours goes to a client in a Referer, and a form of ours still says its Origin,
which no-referrer would make ``null``. No Cross-Origin-Opener-Policy: a client that opens these pages in a pop-up waits
there for its answer.

Where forms may lead (``form-action``, CSP Level 3 §6.4.2): here, and on to the client alone. Chromium judges every
redirect behind a form. So the policy names the client's own origins: that of the address the answer goes to, and those
of the other addresses that staff have registered for it. A client whose callback sends people on to another origin
registers an address there, for instance its ``post_logout_redirect_uri``.
"""

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from django.conf import settings
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils.html import escape
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_noop as _

from accounts import email_address as emails
from accounts.mfa.passkeys import challenges
from accounts.mfa.passkeys.challenges import Purpose
from accounts.outbox import tokens as email_tokens
from accounts.privacy import terms
from accounts.users.outputs import UserOut
from ironauth.infrastructure.core import base64url
from ironauth.infrastructure.http import brand
from tokens.clients.errors import OAuthError
from tokens.clients.registry import Client
from tokens.oauth import device_codes
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.request import Target
from tokens.oauth.authorize.state import AuthorizationState, CodeFor, SignInState
from tokens.protocol import ResponseMode, Scope
from tokens.sessions.queries import StoredSession
from tokens.upstream import providers

#: What a scope means to the person who is asked for it. Others are shown by their name.
SCOPES: Final[Mapping[str, str]] = {
    Scope.OPENID: _("Know who you are, by an identifier"),
    Scope.PROFILE: _("See your name"),
    Scope.EMAIL: _("See your e-mail address"),
    Scope.ROLES: _("See your roles"),
    Scope.OFFLINE_ACCESS: _("Keep this access while you are not there"),
    Scope.ACCOUNT: _("Do everything you can do with your account here"),
}
FOLDER: Final = "tokens/oauth/"
_HERE: Final = "'self'"
_NOWHERE: Final = "'none'"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action {targets}; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)


#: Stands for the signed state while a page is rendered; of characters that no escaping changes; random.
_MARK: Final = secrets.token_urlsafe(24)
#: Stands for what passkeys are suggested with.
_AUTOFILL_MARK: Final = secrets.token_urlsafe(24)


class _Look(NamedTuple):
    """All that a sign-in page depends on before anybody has typed anything."""

    language: str
    site: dict[str, Any]
    client: Client
    state: AuthorizationState


_look_decoder: Final = msgspec.msgpack.Decoder(_Look)


def sign_in(
    state: SignInState, client: Client | None, browser: str, *, email: str = "", **context: Any
) -> HttpResponse:
    """Return the page that asks for address and password, or for one of them (IRONAUTH_SIGN_IN_FORM).

    One at a time, the page with an ``email`` asks for its password, and the one without for the address. Nobody looks
    up whether it has an account.

    ``context``: ``problem`` and ``status`` of a refusal, and ``remedy``, what to offer instead.
    """
    if client is None or not isinstance(state, AuthorizationState):
        return _page("sign_in.html", None, state, browser, email=email, autofill=_autofill(), **context)
    email = email or state.request.login_hint
    if email or context:
        more = {"email": email, "autofill": _autofill(), **context}
        return _page("sign_in.html", client, state, browser, **more)
    # The template sees the request without what differs each time.
    asked = msgspec.structs.replace(state.request, state="", nonce="", code_challenge="", dpop_jkt="")
    plain = msgspec.structs.replace(state, request=asked, expires_at=0)
    look = _Look(get_language() or "", _site(), client, plain)
    text = _sign_in_page(msgspec.msgpack.encode(look)).replace(_MARK, authorization_state.sign(state, browser))
    text = text.replace(_AUTOFILL_MARK, _autofill())
    return _response(text, targets=_targets_of_client(state.request.redirect_uri, client))


def sign_up(state: SignInState, client: Client | None, browser: str, **context: Any) -> HttpResponse:
    """Return the page that makes an account.

    ``context``: ``email`` and ``name`` as they were typed, ``errors`` of fields by name, ``problem`` of no field.
    """
    more = {"shortest": settings.IRONAUTH_PASSWORD_MIN_LENGTH, "terms": terms.shown(), **context}
    return _page("sign_up.html", client, state, browser, **more)


def email_code(state: SignInState, client: Client | None, browser: str, **context: Any) -> HttpResponse:
    """Return the page that asks for the code that was mailed."""
    signs_up = state.code_for is CodeFor.SIGN_UP
    purpose = email_tokens.Purpose.VERIFY_EMAIL if signs_up else email_tokens.Purpose.SIGN_IN
    minutes = int(email_tokens.life(purpose).total_seconds() // 60)
    return _page("email_code.html", client, state, browser, signs_up=signs_up, minutes=minutes, **context)


def ask_email_code(state: SignInState, client: Client | None, browser: str, **context: Any) -> HttpResponse:
    """Return the page that asks where to send a code to sign in with."""
    return _page("ask_email_code.html", client, state, browser, **context)


def of_message(template: str, state: SignInState, client: Client | None, browser: str, **context: Any) -> HttpResponse:
    """Return a page that asks for a message or for the terms, or that a link opens in the browser that asked for it.

    Args:
        template: Its name.
        state: Of the page that asks, or has asked.
        client: That it leads to.
        browser: What the browser's cookie says.
        context: What the template sees; ``status`` and ``headers`` of the answer.
    """
    return _page(template, client, state, browser, **context)


def of_message_elsewhere(template: str, **context: Any) -> HttpResponse:
    """Return the page that a link in a message opens in any other browser.

    Args:
        template: Its name.
        context: As of `of_message`.
    """
    status, headers = context.pop("status", 200), context.pop("headers", None)
    return _rendered(template, context, targets=_HERE, status=status, headers=headers)


def second_factor(state: SignInState, client: Client | None, browser: str, **context: Any) -> HttpResponse:
    """Return the page that asks for a second factor; for a recovery code, with ``recovery`` or without an app."""
    has = {f"by_{method}": method in state.methods for method in ("totp", "recovery_code", "passkey")}
    recovery = has["by_recovery_code"] and (context.get("recovery", False) or not has["by_totp"])
    known = {**has, "keep_days": settings.IRONAUTH_KEEP_DEVICE_DAYS, **context, "recovery": recovery}
    return _page("second_factor.html", client, state, browser, **known)


def consent(state: AuthorizationState, client: Client, browser: str, session: StoredSession) -> HttpResponse:
    """Return the page that asks the person of ``session`` whether the client may have what it asks for."""
    asked = state.request.scope.split()
    scopes = [gettext(text) for scope, text in SCOPES.items() if scope in asked]
    scopes += [one for one in asked if one not in SCOPES]
    asked_of = {"scopes": scopes, "user": session.account.user}
    if state.device:
        code = device_codes.shown(state.device)
        return _page("device_confirm.html", client, state, browser, **asked_of, code=code)
    target = urlsplit(state.request.redirect_uri)
    return _page("consent.html", client, state, browser, **asked_of, host=target.netloc or target.scheme)


def accounts(
    state: AuthorizationState, client: Client, browser: str, sessions: Sequence[StoredSession]
) -> HttpResponse:
    """Return the page that asks with which of the accounts of this browser to go on.

    Args:
        state: What they go on with.
        client: The client that waits.
        browser: What this browser's cookie says, or is about to.
        sessions: Theirs, the current one first.
    """
    rows = [(one, "") for one in sessions]
    return _page("accounts.html", client, state, browser, accounts=rows, signed_out=False)


def accounts_here(
    sessions: Sequence[tuple[StoredSession, str]], *, signed_out: bool = False, chosen: str = ""
) -> HttpResponse:
    """Return the page that lists the accounts of this browser, where no client waits.

    Args:
        sessions: Each with what its form brings back to show that this page was seen.
        signed_out: Whether the person has just signed out of another one.
        chosen: The address of the one that has just been chosen, if one has.
    """
    context = {"client": None, "state": None, "accounts": sessions, "signed_out": signed_out, "chosen": chosen}
    return _rendered("accounts.html", context, targets=_HERE)


def device(*, user_code: str = "", problem: str = "") -> HttpResponse:
    """Return the page that asks which device is waiting (RFC 8628 §3.3)."""
    context = {"user_code": user_code, "problem": problem}
    return _rendered("device.html", context, targets=_HERE, status=400 if problem else 200)


def device_done(client: Client, *, allowed: bool) -> HttpResponse:
    """Return the page that sends people back to their device."""
    return _rendered("device_done.html", {"client": client, "allowed": allowed}, targets=_NOWHERE)


def sign_out(
    *, user: UserOut | None, client: Client | None, confirmation: str, redirect_uri: str, state: str
) -> HttpResponse:
    """Return the page that asks whether the person who is signed in here wants to sign out.

    Args:
        user: None where the session signs nobody in any more: anybody may have its cookie.
        client: The client that sends them here, if any.
        confirmation: What the form brings back to show that this page was seen.
        redirect_uri: Where the client wants them to be afterwards, "" for nowhere.
        state: The client's own, to be given back there.
    """
    context = {"user": user, "client": client, "confirmation": confirmation, "state": state}
    context["redirect_uri"] = redirect_uri
    return _rendered("sign_out.html", context, targets=_targets_of_client(redirect_uri, client))


def signed_out(redirect_uri: str, state: str, *, by_form: bool) -> HttpResponse:
    """Return the way on to where the client wants its people to be, with its ``state``; else a page of ours."""
    if not redirect_uri:
        return _rendered("signed_out.html", {}, targets=_NOWHERE)
    return _on_to(redirect_uri, {"state": state} if state else {}, by_form=by_form)


def error(*, detail: str, status: int, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a page that says what is wrong; there is nowhere to go on."""
    return _rendered("error.html", {"detail": detail}, targets=_NOWHERE, status=status, headers=headers)


def answer(target: Target, *, by_form: bool, **parameters: str) -> HttpResponse:
    """Return the answer to the client, with its ``state`` and our ``iss`` (RFC 9207 §2): a redirect, or a form.

    Args:
        target: Where the answer goes.
        by_form: Whether a form of our pages leads there.
        parameters: What the client is told.
    """
    everything = {**parameters, **({"state": target.state} if target.state else {}), "iss": settings.IRONAUTH_ISSUER}
    if target.response_mode == ResponseMode.FORM_POST:
        context = {"action": target.redirect_uri, "parameters": everything}
        return _rendered("form_post.html", context, targets=_targets_of_answer(target.redirect_uri))
    return _on_to(target.redirect_uri, everything, by_form=by_form)


def refusal(target: Target, reason: OAuthError, *, by_form: bool) -> HttpResponse:
    """Return an error as answer to the client (RFC 6749 §4.1.2.1)."""
    return answer(target, by_form=by_form, error=reason.error, error_description=reason.detail)


def repeated(path: str, query: str) -> HttpResponse:
    """Return the redirect that makes a GET of what was posted."""
    return _see_other(f"{path}?{query}")


def _on_to(address: str, parameters: Mapping[str, str], *, by_form: bool) -> HttpResponse:
    """Return the redirect to a client; a page that goes there where a form's policy cannot name the client."""
    location = _with(address, parameters)
    if not by_form or not _is_nameless(address):
        return _see_other(location)
    return _rendered("go_on.html", {"address": location}, targets=_NOWHERE, headers={"Referrer-Policy": "no-referrer"})


def _with(address: str, parameters: Mapping[str, str]) -> str:
    """Return a client's address with parameters of ours after its own."""
    joint = "&" if "?" in address else "?"
    return f"{address}{joint if parameters else ''}{urlencode(parameters, quote_via=quote)}"


def on_to_provider(address: str) -> HttpResponse:
    """Return the way on to another provider: a page that goes there, since a form's policy does not name it."""
    site = msgspec.msgpack.encode(_site())
    text = _go_on_page(get_language() or "", site).replace(_MARK, escape(address))
    return _response(text, targets=_NOWHERE, headers={"Referrer-Policy": "no-referrer"})


def on_to_account(path: str) -> HttpResponse:
    """Return the redirect to a path of this site that somebody has signed in for."""
    return _see_other(path)


def _see_other(location: str) -> HttpResponse:
    """Return 303, which no browser answers by sending the form on (RFC 9700 §4.12)."""
    response = HttpResponse(status=303, headers={"Location": location, "Referrer-Policy": "no-referrer"})
    del response.headers["Content-Type"]
    return response


@lru_cache(maxsize=1_024)  # 3 kB each; rendering takes 310 µs of CPU time, putting a state into a page 8
def _sign_in_page(encoded_look: bytes) -> str:
    """Return the page that looks so, with a mark where the signed state belongs."""
    look = _look_decoder.decode(encoded_look)
    marks = {"signed_state": _MARK, "autofill": _AUTOFILL_MARK}
    return render_to_string(f"{FOLDER}sign_in.html", {**look.site, "client": look.client, "state": look.state, **marks})


@lru_cache(maxsize=16)  # of each language one, and of what the site said before
def _go_on_page(_language: str, site: bytes) -> str:
    """Return the page that goes on to somewhere, with a mark where the address belongs."""
    return render_to_string(f"{FOLDER}go_on.html", {**msgspec.msgpack.decode(site), "address": _MARK})


def _autofill() -> str:
    """Return what the browser suggests passkeys with: whose they are, a challenge's token, and the challenge.

    In the page, since a request for it would be one more for everybody who opens it, counted against their network.
    """
    token, challenge = challenges.mint(Purpose.SIGN_IN)
    return f"{settings.IRONAUTH_WEBAUTHN_RP_ID} {token} {base64url.encode(challenge)}"


def _page(template: str, client: Client | None, state: SignInState, browser: str, **context: Any) -> HttpResponse:
    status, headers = context.pop("status", 200), context.pop("headers", None)
    known = {"client": client, "state": state, "signed_state": authorization_state.sign(state, browser), **context}
    redirect_uri = state.request.redirect_uri if isinstance(state, AuthorizationState) else ""
    targets = _targets_of_client(redirect_uri, client)
    return _rendered(template, known, targets=targets, status=status, headers=headers)


def _rendered(
    template: str, context: Mapping[str, Any], *, targets: str, status: int = 200, headers: Any = None
) -> HttpResponse:
    text = render_to_string(FOLDER + template, {**_site(), **context})
    return _response(text, targets=targets, status=status, headers=headers)


def _site() -> dict[str, Any]:
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


def _response(text: str, *, targets: str, status: int = 200, headers: Any = None) -> HttpResponse:
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


def _targets_of_client(redirect_uri: str, client: Client | None) -> str:
    """Return what forms of a page for this client may lead to; ``redirect_uri`` is where it ends, "" for nowhere."""
    if not redirect_uri:
        return _HERE
    registered = (*client.redirect_uris, *client.post_logout_redirect_uris) if client is not None else ()
    return _sources(redirect_uri, registered)


def _targets_of_answer(redirect_uri: str) -> str:
    """Return the same for the form that is the answer.

    A policy has no way to name an IPv6 address: then it names the scheme.
    """
    return f"{_HERE} {urlsplit(redirect_uri).scheme}:" if _is_nameless(redirect_uri) else _sources(redirect_uri, ())


def _is_nameless(uri: str) -> bool:
    """Return whether a policy cannot name the address's origin: its host is an IPv6 address (CSP Level 3 §2.3.1)."""
    return urlsplit(uri).netloc.startswith("[")


@lru_cache(maxsize=256)  # asked for every page; a site has a few clients with a few addresses
def _sources(redirect_uri: str, registered: tuple[str, ...]) -> str:
    sources = [_source(uri) for uri in (redirect_uri, *registered) if not _is_nameless(uri)]
    return " ".join(dict.fromkeys((_HERE, *sources)))


def _source(uri: str) -> str:
    """Return the origin of an address; the scheme of one that an application on a device claims by its scheme."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else f"{parts.scheme}:"
