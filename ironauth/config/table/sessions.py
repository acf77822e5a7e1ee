"""Settings of tokens, sessions and OAuth."""

from urllib.parse import urlsplit

from ironauth.config import addresses, webauthn
from ironauth.config.checks import audience, key_ring, refuse_exposed_shortcuts, refuse_idle_beyond_absolute
from ironauth.config.environment import Environment, Limit
from ironauth.config.table.setting import Accept, Given, Section, Setting

# Browsers forget a cookie after 400 days whatever it says (RFC 6265bis §5.5): no session outlasts its refresh cookie.
COOKIE_LIFE_S = 400 * 86_400
SESSION = "less ends it while a form is filled in, and browsers keep no cookie beyond 400 days"


def _idle_within(family: str) -> Accept:
    def accept(idle_s: int, given: Given) -> int:
        refuse_idle_beyond_absolute(idle_s=idle_s, absolute_s=given[f"{family}_ABSOLUTE_S"], of=family)
        return idle_s

    return accept


def _not_exposed(secure: bool, given: Given) -> bool:
    refuse_exposed_shortcuts(
        debug=given["DEBUG"],
        cookie_secure=secure,
        issuer=given["IRONAUTH_ISSUER"],
        allowed_hosts=given["ALLOWED_HOSTS"],
    )
    return secure


def _relying_party(env: Environment, given: Given) -> tuple[str, list[str]]:
    return webauthn.relying_party(
        env.text("IRONAUTH_WEBAUTHN_RP_ID", default=""),
        env.words("IRONAUTH_WEBAUTHN_ORIGINS"),
        issuer=given["IRONAUTH_ISSUER"],
        trusted=given["IRONAUTH_TRUSTED_ORIGINS"],
    )


SESSIONS = Section(
    "tokens and sessions",
    (
        Setting(
            "IRONAUTH_ISSUER",
            kind="text",
            default=lambda given: "http://127.0.0.1:8000" if given["DEBUG"] else "",
            example="https://id.example.com",
            accept=lambda value, _: addresses.issuer(value, "IRONAUTH_ISSUER"),
            required=True,
            refused="missing without DEBUG, or no such origin",
            text=(
                "Required unless DEBUG: the public https:// origin, in lower case, without path or trailing slash "
                "(http on loopback only); the `iss` of every token."
            ),
        ),
        Setting(
            "IRONAUTH_AUDIENCE",
            kind="text",
            default=lambda given: given["IRONAUTH_ISSUER"],
            example="https://id.example.com",
            accept=lambda value, _: audience(value, "IRONAUTH_AUDIENCE"),
            refused="spaces, other characters, more than 255",
            text="The `aud` of access tokens, up to 255 visible ASCII characters (default: IRONAUTH_ISSUER).",
        ),
        Setting(
            "IRONAUTH_JWT_ALG",
            kind="choice",
            default="EdDSA",
            choices=("EdDSA", "Ed25519"),
            text="EdDSA (RFC 8037, understood by nearly every library) or Ed25519 (RFC 9864).",
        ),
        Setting(
            "IRONAUTH_MASTER_KEYS",
            kind="words",
            default=(),
            accept=lambda value, _: key_ring(value, "IRONAUTH_MASTER_KEYS", required=True),
            type="dict[str, bytes]",
            required=True,
            refused="missing, a malformed item, a repeated id or key, a key that is not random",
            text=(
                "Required. id:key items, newest first, separated by commas; they encrypt signing keys and key refresh "
                "tokens:\n"
                "  python3 -c 'import secrets; print(\"k1:\" + secrets.token_urlsafe(32))'"
            ),
        ),
        Setting(
            "IRONAUTH_ACCESS_TOKEN_S",
            kind="whole",
            default=600,
            limit=Limit(1, 3_600, "seconds", "other applications believe a token until it ends, also after a sign-out"),
            text=(
                "Lifetime of an access token, {least} to {most} seconds: other applications believe it that long, "
                "also after a sign-out."
            ),
        ),
        Setting(
            "IRONAUTH_REFRESH_GRACE_S",
            kind="whole",
            default=10,
            limit=Limit(
                0, 60, "seconds", "a stolen refresh token is not noticed for that long; 60 covers a client's retries"
            ),
            text=(
                "How long a refresh token that was just used still gets the same successor, {least} to {most} "
                "seconds: a stolen one is not noticed for that long."
            ),
        ),
        Setting(
            "IRONAUTH_SESSION_IDLE_S",
            kind="whole",
            default=lambda given: min(14 * 86_400, given["IRONAUTH_SESSION_ABSOLUTE_S"]),
            example="1209600",
            limit=Limit(60, COOKIE_LIFE_S, "seconds", SESSION),
            accept=_idle_within("IRONAUTH_SESSION"),
            refused="more than IRONAUTH_SESSION_ABSOLUTE_S",
            text=(
                "A session ends when it is not used for this long, {least} to {most} seconds, at most "
                "IRONAUTH_SESSION_ABSOLUTE_S (default: 14 days, or that)."
            ),
        ),
        Setting(
            "IRONAUTH_SESSION_ABSOLUTE_S",
            kind="whole",
            default=30 * 86_400,
            limit=Limit(60, COOKIE_LIFE_S, "seconds", SESSION),
            text=(
                "A session ends after this long however much it is used, {least} to {most} seconds: browsers keep no "
                "cookie beyond 400 days (default: 30 days, SP 800-63B-4 §2.1.3)."
            ),
        ),
        Setting(
            "IRONAUTH_MAX_SESSIONS_PER_USER",
            kind="whole",
            default=100,
            limit=Limit(
                5, 1_000, "sessions", "a browser and an application take three with single sign-on; a list shows 1,000"
            ),
            text=(
                "How many live sessions one person may have, {least} to {most}, those of applications included: with "
                "another one, the one that was not used for longest ends, of the application that has most."
            ),
        ),
        Setting(
            "IRONAUTH_JWKS_MAX_AGE_S",
            kind="whole",
            default=300,
            limit=Limit(0, 86_400, "seconds", "other applications believe a compromised key for that long"),
            text=(
                "How long clients may keep the public key set, and so believe a compromised key, {least} to {most} "
                "seconds."
            ),
        ),
        Setting(
            "IRONAUTH_COOKIE_SECURE",
            kind="switch",
            default=lambda given: not given["DEBUG"],
            example="1",
            accept=_not_exposed,
            refused="0 with a public issuer or host",
            text=(
                "0 or 1: Secure cookies with the __Host- prefix, HSTS (default: 1 without DEBUG). 0 is refused unless "
                "IRONAUTH_ISSUER and all ALLOWED_HOSTS are loopback."
            ),
        ),
        Setting(
            "IRONAUTH_HSTS",
            kind="choice",
            default="host",
            choices=("host", "subdomains", "preload"),
            read=lambda env, _: addresses.hsts_reach(env),
            exported=False,
            text=(
                "host, subdomains or preload: the hosts HSTS is for, with Secure cookies: this host, the hosts below "
                "it too (includeSubDomains), or that and browsers' own lists (preload, hard to leave)."
            ),
        ),
        Setting(
            "IRONAUTH_TRUSTED_ORIGINS",
            kind="words",
            default=(),
            accept=lambda value, _: addresses.origins(value, "IRONAUTH_TRUSTED_ORIGINS"),
            refused="an item that is no such origin",
            text=(
                "Other origins whose pages may use the cookies for unsafe methods, e.g. https://app.example.com "
                "(default: none). Each as browsers send it: no path, no trailing slash, no *; http on loopback only."
            ),
        ),
        Setting(
            "IRONAUTH_TRUSTED_PROXIES",
            kind="words",
            default=(),
            accept=lambda value, _: addresses.networks(value, "IRONAUTH_TRUSTED_PROXIES"),
            refused="an item that is no address, or a wider network",
            text=(
                "Addresses or networks of the reverse proxies whose X-Forwarded-For/-Proto count, e.g. 10.0.0.0/8; "
                "`unix` for a socket (default: none). Networks wider than 10.0.0.0/8 or fc00::/7 are refused."
            ),
        ),
        Setting(
            "IRONAUTH_WEBAUTHN_RP_ID",
            kind="text",
            example="id.example.com",
            read=lambda env, given: _relying_party(env, given)[0],
            refused="no host name, or one that no page could use",
            text=(
                "Passkeys: the host name they are bound to, that of the pages or one above it (default: the host of "
                "IRONAUTH_ISSUER, localhost for a loopback address). Another one later makes every passkey useless."
            ),
        ),
        Setting(
            "IRONAUTH_WEBAUTHN_ORIGINS",
            kind="words",
            default=(),
            example="https://id.example.com",
            read=lambda env, given: _relying_party(env, given)[1],
            refused="an origin outside that host name",
            text=(
                "The origins of the pages that may use passkeys, each at or below IRONAUTH_WEBAUTHN_RP_ID (default: "
                "IRONAUTH_ISSUER, and those of IRONAUTH_TRUSTED_ORIGINS that are)."
            ),
        ),
    ),
)


OAUTH = Section(
    "OAuth",
    (
        Setting(
            "IRONAUTH_SSO_IDLE_S",
            kind="whole",
            default=lambda given: min(86_400, given["IRONAUTH_SSO_ABSOLUTE_S"]),
            example="86400",
            limit=Limit(60, COOKIE_LIFE_S, "seconds", SESSION),
            accept=_idle_within("IRONAUTH_SSO"),
            refused="more than IRONAUTH_SSO_ABSOLUTE_S",
            text=(
                "Somebody who signed in at /oauth/ is not asked again, by any application, until this browser has not "
                "been sent there for this long, {least} to {most} seconds, at most IRONAUTH_SSO_ABSOLUTE_S (default: "
                "a day, or that)."
            ),
        ),
        Setting(
            "IRONAUTH_SSO_ABSOLUTE_S",
            kind="whole",
            default=7 * 86_400,
            limit=Limit(60, COOKIE_LIFE_S, "seconds", SESSION),
            text=(
                "An SSO session ends after this long however often it is used, {least} to {most} seconds (default: 7 "
                "days)."
            ),
        ),
        Setting(
            "IRONAUTH_OAUTH_SITE_NAME",
            kind="text",
            default=lambda given: urlsplit(given["IRONAUTH_ISSUER"]).netloc,
            example="id.example.com",
            text=(
                "What the pages of /oauth/ call this server (default: the host of IRONAUTH_ISSUER). Their looks are "
                "templates: IRONAUTH_TEMPLATES."
            ),
        ),
        Setting(
            "IRONAUTH_LOGOUT_NETWORKS",
            kind="words",
            default=lambda given: ["127.0.0.0/8", "::1"] if given["DEBUG"] else [],
            accept=lambda value, _: addresses.private_networks(value, "IRONAUTH_LOGOUT_NETWORKS"),
            refused="an item that is no address, or a network wider than 10.0.0.0/8 or fc00::/7",
            text=(
                "Networks that are not public and that this server calls all the same to tell applications of a "
                "sign-out (back-channel logout), e.g. 10.0.0.0/8 (default: none; this machine with DEBUG=1). A host "
                "name is resolved once, and judged."
            ),
        ),
    ),
)
