"""The pages of /oauth/: what each of them shows. How they are sent: `responses`."""

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils.html import escape
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_noop as _

from accounts.access.scopes import SCOPES as ADMINISTRATION
from accounts.mfa.errors import WRONG_RECOVERY_CODE, InvalidMfaCode
from accounts.mfa.factors import FACTORS
from accounts.mfa.passkeys import challenges
from accounts.mfa.passkeys.challenges import Purpose
from accounts.outbox import tokens as email_tokens
from accounts.privacy import terms
from accounts.users.outputs import UserOut
from ironauth.infrastructure.core import base64url
from tokens.clients.registry import Client
from tokens.details.words import Shown
from tokens.oauth import device_codes
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.responses import FOLDER, HERE, NOWHERE, html, render, site_facts, targets_of_client
from tokens.oauth.authorize.state import AuthorizationState, CodeFor, SignInState
from tokens.oauth.consent import strangers
from tokens.protocol import Scope
from tokens.resources.queries import Named
from tokens.sessions.queries import StoredSession

#: What a scope means to the person who is asked for it. Others are shown by their name.
SCOPES: Final[Mapping[str, str]] = {
    Scope.OPENID: _("Know who you are, by an identifier"),
    Scope.PROFILE: _("See your name, language and time zone"),
    Scope.EMAIL: _("See your e-mail address"),
    Scope.ROLES: _("See your roles"),
    Scope.ORGANIZATION: _("See for which organisation you act, and your role there"),
    Scope.OFFLINE_ACCESS: _("Keep this access while you are not there"),
    Scope.ACCOUNT: _("Do everything you can do with your account here"),
}
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

    Args:
        state: What the page carries to the next one, signed.
        client: That it leads to; None for one's own account.
        browser: What the browser's cookie says.
        email: The address that was typed; "" for none.
        context: ``problem`` and ``status`` of a refusal, and ``remedy``, what to offer instead.
    """
    if client is None or not isinstance(state, AuthorizationState):
        return _page("sign_in.html", None, state, browser, email=email, autofill=_autofill(), **context)
    email = email or state.request.login_hint
    if email or context:
        more = {"email": email, "autofill": _autofill(), **context}
        return _page("sign_in.html", client, state, browser, **more)
    # The template sees the request without what differs each time.
    asked = msgspec.structs.replace(state.request, state="", nonce="", code_challenge="", dpop_jkt="", details=())
    plain = msgspec.structs.replace(state, request=asked, expires_at=0)
    look = _Look(get_language() or "", site_facts(), client, plain)
    text = _sign_in_page(msgspec.msgpack.encode(look)).replace(_MARK, authorization_state.sign(state, browser))
    text = text.replace(_AUTOFILL_MARK, _autofill())
    return html(text, targets=targets_of_client(state.request.redirect_uri, client))


def sign_up(state: SignInState, client: Client | None, browser: str, **context: Any) -> HttpResponse:
    """Return the page that makes an account.

    Args:
        state: What the page carries to the next one, signed.
        client: That it leads to; None for one's own account.
        browser: What the browser's cookie says.
        context: ``email`` and ``name`` as they were typed, ``errors`` of fields by name, ``problem`` of no field.
    """
    more = {"shortest": settings.IRONAUTH_PASSWORD_MIN_LENGTH, "terms": terms.shown(), **context}
    return _page("sign_up.html", client, state, browser, **more)


def email_code(state: SignInState, client: Client | None, browser: str, **context: Any) -> HttpResponse:
    """Return the page that asks for the code that was mailed.

    Args:
        state: What the page carries to the next one, signed.
        client: That it leads to; None for one's own account.
        browser: What the browser's cookie says.
        context: ``sent_again``: whether it was, just now; ``problem`` and ``status`` of a refusal.
    """
    signs_up = state.code_for is CodeFor.SIGN_UP
    purpose = email_tokens.Purpose.VERIFY_EMAIL if signs_up else email_tokens.Purpose.SIGN_IN
    minutes = int(email_tokens.life(purpose).total_seconds() // 60)
    return _page("email_code.html", client, state, browser, signs_up=signs_up, minutes=minutes, **context)


def ask_email_code(state: SignInState, client: Client | None, browser: str, **context: Any) -> HttpResponse:
    """Return the page that asks where to send a code to sign in with.

    Args:
        state: What the page carries to the next one, signed.
        client: That it leads to; None for one's own account.
        browser: What the browser's cookie says.
        context: ``email`` as it was typed, ``errors`` of fields by name; ``problem`` and ``status`` of a refusal.
    """
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
    return render(template, context, targets=HERE, status=status, headers=headers)


def second_factor(state: SignInState, client: Client | None, browser: str, **context: Any) -> HttpResponse:
    """Return the page that asks for a second factor: for a recovery code only where one is wanted.

    Args:
        state: What the page carries to the next one, signed.
        client: That it leads to; None for one's own account.
        browser: What the browser's cookie says.
        context: ``recovery``: whether a recovery code is wanted; ``problem`` and ``status`` of a refusal.
    """
    has = [factor for factor in FACTORS if factor.name in state.methods]
    alone = any(factor.stands_alone for factor in has)
    recovery = any(not factor.stands_alone for factor in has) and (context.get("recovery", False) or not alone)
    by = {f"by_{factor.name}": factor in has for factor in FACTORS}
    if recovery and context.get("problem") == InvalidMfaCode.detail:
        context["problem"] = WRONG_RECOVERY_CODE
    known = {**by, "keep_days": settings.IRONAUTH_KEEP_DEVICE_DAYS, **context, "recovery": recovery}
    return _page("second_factor.html", client, state, browser, **known)


def consent(state: AuthorizationState, client: Client, browser: str, session: StoredSession) -> HttpResponse:
    """Return the page that asks somebody whether the client may have what it asks for.

    Args:
        state: What the page carries to the next one, signed; with a request that names scopes or authorization details.
        client: The client that asks.
        browser: What the browser's cookie says.
        session: Of the person who is asked.

    Raises:
        ImproperlyConfigured: A page of the installation's own does not show what is asked for.
    """
    asked = state.request.scope.split()
    scopes = [gettext(text) for scope, text in SCOPES.items() if scope in asked]
    administers = [one for one in asked if client.administers and one in ADMINISTRATION]
    if administers:
        scopes.append(
            gettext("Administer this site, as far as you may: %(scopes)s") % {"scopes": ", ".join(administers)}
        )
    apis = [one for one in state.request.resources if one.name]
    scopes += [_permission(one, apis) for one in asked if one not in SCOPES and one not in administers]
    details = [one.shown for one in state.request.details]
    asked_of = {"scopes": scopes, "details": details, "user": session.account.user, "apis": apis}
    if state.device:
        code = device_codes.shown(state.device)
        page = _page("device_confirm.html", client, state, browser, **asked_of, code=code)
        _require_shown(page, details, "device_confirm.html")
        return page
    target = urlsplit(state.request.redirect_uri)
    asks = {"redirect_uri": state.request.redirect_uri, "scope": state.request.scope}
    more = strangers.facts(client, **asks) if client.unverified else {}
    page = _page("consent.html", client, state, browser, **asked_of, **more, host=target.netloc or target.scheme)
    _require_shown(page, details, "consent.html")
    return page


def _require_shown(page: HttpResponse, details: Sequence[Shown], name: str) -> None:
    """Refuse a page of the installation's own that leaves out what a person would allow.

    Raises:
        ImproperlyConfigured: A part of the authorization details is not on it.
    """
    if not details:
        return
    text = page.content.decode()
    parts = [part for one in details for part in (*(piece.text for piece in one.sentence), *chain(*one.rest))]
    if not all(escape(part) in text for part in parts):
        raise ImproperlyConfigured(
            f"tokens/oauth/{name} in IRONAUTH_TEMPLATES leaves out the authorization details, so nobody is asked: "
            'put {% include "tokens/oauth/asked_for.html" %} into it'
        )


def _permission(scope: str, apis: Sequence[Named]) -> str:
    """Return what a scope without words of ours lets an application do, and at which API where it is for one."""
    if len(apis) == 1:
        return gettext("Use the permission “%(scope)s” of %(api)s") % {"scope": scope, "api": apis[0].name}
    return gettext("Use the permission “%(scope)s”") % {"scope": scope}


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
    return render("accounts.html", context, targets=HERE)


def own_accounts(
    accounts: Sequence[tuple[StoredSession, str, bool]], *, there: str, signed_out: bool = False
) -> HttpResponse:
    """Return the page that lists the accounts of this browser at this site's own pages.

    Args:
        accounts: A session of each, what its form brings back to show that this page was seen, and whether it is the
            present one. The present one is the first, if there is one.
        there: The path to go on to.
        signed_out: Whether the person has just signed out of another one.
    """
    context = {"accounts": accounts, "there": there, "signed_out": signed_out, "first": accounts[0]}
    return render("own_accounts.html", context, targets=HERE)


def device(*, user_code: str = "", problem: str = "") -> HttpResponse:
    """Return the page that asks which device is waiting (RFC 8628 §3.3).

    Args:
        user_code: As it was typed, or as the device's link has it.
        problem: What is wrong with it, a sentence; "" before it was sent.
    """
    context = {"user_code": user_code, "problem": problem}
    return render("device.html", context, targets=HERE, status=400 if problem else 200)


def device_done(client: Client, *, allowed: bool) -> HttpResponse:
    """Return the page that sends people back to their device.

    Args:
        client: The client on the device.
        allowed: What they have decided.
    """
    return render("device_done.html", {"client": client, "allowed": allowed}, targets=NOWHERE)


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
    document_url = client.document_url if client is not None else ""
    context = {
        "user": user,
        "client": client,
        "origin": strangers.origin_of(document_url, redirect_uri) if document_url or redirect_uri else "",
        "confirmation": confirmation,
        "redirect_uri": redirect_uri,
        "state": state,
    }
    return render("sign_out.html", context, targets=targets_of_client(redirect_uri, client))


def error(
    *, detail: str, status: int, headers: Mapping[str, str] | None = None, signs_in: bool = False
) -> HttpResponse:
    """Return a page that says what is wrong; there is nowhere to go on.

    Args:
        detail: What is wrong, a sentence.
        status: Of the answer.
        headers: Of the answer, ``Retry-After`` for instance.
        signs_in: Whether the page has a link for signing in anew.
    """
    return render(
        "error.html", {"detail": detail, "signs_in": signs_in}, targets=NOWHERE, status=status, headers=headers
    )


@lru_cache(maxsize=1_024)  # 3 kB each; rendering takes 310 µs of CPU time, putting a state into a page 8
def _sign_in_page(encoded_look: bytes) -> str:
    """Return the page that looks so, with a mark where the signed state belongs."""
    look = _look_decoder.decode(encoded_look)
    marks = {"signed_state": _MARK, "autofill": _AUTOFILL_MARK, "origin": _origin(look.client, look.state)}
    marks |= _facts(look.client)
    return render_to_string(f"{FOLDER}sign_in.html", {**look.site, "client": look.client, "state": look.state, **marks})


def _origin(client: Client | None, state: SignInState) -> str:
    """Return where an unverified client comes from, for people about to type a password; "" for all others.

    A device that waits for its code is answered nowhere: only a document says where its client is from.
    """
    if client is None or not client.unverified or not isinstance(state, AuthorizationState):
        return ""
    if not (client.document_url or state.request.redirect_uri):
        return ""
    return strangers.origin_of(client.document_url, state.request.redirect_uri)


def _facts(client: Client | None) -> dict[str, Any]:
    """Return what a client says of itself beside its name: its logo, of which there is a copy here, and its texts.

    One that its document describes has no row, and hence no copy, before somebody has allowed it something.
    """
    if client is None:
        return {}
    logo = client.logo_mark if client.stored else ""
    links = [
        {"kind": kind, "uri": uri, "host": urlsplit(uri).netloc}
        for kind, uri in (("policy_uri", client.policy_uri), ("tos_uri", client.tos_uri))
        if uri
    ]
    return {"client_logo": logo, "client_links": links}


def _autofill() -> str:
    """Return what the browser suggests passkeys with: whose they are, a challenge's token, and the challenge.

    In the page, since a request for it would be one more for everybody who opens it, counted against their network.
    """
    token, challenge = challenges.mint(Purpose.SIGN_IN)
    return f"{settings.IRONAUTH_WEBAUTHN_RP_ID} {token} {base64url.encode(challenge)}"


def _page(template: str, client: Client | None, state: SignInState, browser: str, **context: Any) -> HttpResponse:
    status, headers = context.pop("status", 200), context.pop("headers", None)
    known = {"client": client, "state": state, "signed_state": authorization_state.sign(state, browser)}
    known |= {"origin": _origin(client, state), **_facts(client), **context}
    redirect_uri = state.request.redirect_uri if isinstance(state, AuthorizationState) else ""
    targets = targets_of_client(redirect_uri, client)
    return render(template, known, targets=targets, status=status, headers=headers)
