"""Settings of tokens, sessions and OAuth."""

from urllib.parse import urlsplit

from ironauth.config import addresses, asked_port, webauthn
from ironauth.config.checks import audience, key_ring, refuse_exposed_shortcuts, refuse_idle_beyond_absolute
from ironauth.config.environment import Environment, Limit
from ironauth.config.table.setting import Accept, Section, Setting, SettingValues

# Browsers forget a cookie after 400 days whatever it says (RFC 6265bis §5.5): no session outlasts its refresh cookie.
COOKIE_LIFE_S = 400 * 86_400
SESSION = "a shorter one ends while a form is filled in; browsers keep no cookie beyond 400 days"


def _idle_within(family: str) -> Accept:
    def accept(idle_s: int, given: SettingValues) -> int:
        refuse_idle_beyond_absolute(idle_s=idle_s, absolute_s=given[f"{family}_ABSOLUTE_S"], of=family)
        return idle_s

    return accept


def _not_exposed(secure: bool, given: SettingValues) -> bool:
    refuse_exposed_shortcuts(
        debug=given["DEBUG"],
        cookie_secure=secure,
        issuer=given["IRONAUTH_ISSUER"],
        allowed_hosts=given["ALLOWED_HOSTS"],
    )
    return secure


def _relying_party(env: Environment, given: SettingValues) -> tuple[str, list[str]]:
    return webauthn.relying_party(
        env.text("IRONAUTH_WEBAUTHN_RP_ID", default=""),
        env.words("IRONAUTH_WEBAUTHN_ORIGINS"),
        issuer=given["IRONAUTH_ISSUER"],
        trusted=given["IRONAUTH_TRUSTED_ORIGINS"],
    )


SESSIONS = Section(
    "tokens and sessions",
    Setting(
        "IRONAUTH_ISSUER",
        "Required unless DEBUG (then http://localhost at IRONAUTH_SERVE_PORT): the public https:// origin, in lower "
        "case, without path or trailing slash (http on loopback only); the `iss` of every token.",
        kind="text",
        default=lambda given: asked_port.origin(given["IRONAUTH_SERVE_PORT"]) if given["DEBUG"] else "",
        example="https://id.example.com",
        accept=lambda value, _: addresses.issuer(value, "IRONAUTH_ISSUER"),
        required=True,
        refused="missing without DEBUG, or no such origin",
    ),
    Setting(
        "IRONAUTH_AUDIENCE",
        "The `aud` of access tokens, up to 255 visible ASCII characters (default: IRONAUTH_ISSUER).",
        kind="text",
        default=lambda given: given["IRONAUTH_ISSUER"],
        example="https://id.example.com",
        accept=lambda value, _: audience(value, "IRONAUTH_AUDIENCE"),
        refused="spaces, other characters, more than 255",
    ),
    Setting(
        "IRONAUTH_JWT_ALG",
        "EdDSA (RFC 8037, understood by nearly every library) or Ed25519 (RFC 9864).",
        default="EdDSA",
        choices=("EdDSA", "Ed25519"),
    ),
    Setting(
        "IRONAUTH_MASTER_KEYS",
        "Required. id:key items, newest first, separated by commas; they encrypt signing keys and key refresh tokens:\n"
        "  python3 -c 'import secrets; print(\"k1:\" + secrets.token_urlsafe(32))'",
        default=(),
        accept=lambda value, _: key_ring(value, "IRONAUTH_MASTER_KEYS", required=True),
        type="dict[str, bytes]",
        required=True,
        refused="missing, a malformed item, a repeated id or key, a key that is not random",
        secret=True,
    ),
    Setting(
        "IRONAUTH_ACCESS_TOKEN_S",
        "Lifetime of an access token, {least} to {most} seconds: other applications believe it that long, also after a "
        "sign-out.",
        default=600,
        limit=Limit(1, 3_600, "seconds", "other applications believe a token until it ends, also after a sign-out"),
    ),
    Setting(
        "IRONAUTH_REFRESH_GRACE_S",
        "How long a refresh token that was just used still gets the same successor, {least} to {most} seconds: a "
        "stolen one is not noticed for that long.",
        default=10,
        limit=Limit(
            0, 60, "seconds", "a stolen refresh token is not noticed for that long; 60 covers a client's retries"
        ),
    ),
    Setting(
        "IRONAUTH_SESSION_IDLE_S",
        "A session ends when it is not used for this long, {least} to {most} seconds, at most "
        "IRONAUTH_SESSION_ABSOLUTE_S (default: 14 days, or that).",
        kind="whole",
        default=lambda given: min(14 * 86_400, given["IRONAUTH_SESSION_ABSOLUTE_S"]),
        example="1209600",
        limit=Limit(60, COOKIE_LIFE_S, "seconds", SESSION),
        accept=_idle_within("IRONAUTH_SESSION"),
        refused="more than IRONAUTH_SESSION_ABSOLUTE_S",
    ),
    Setting(
        "IRONAUTH_SESSION_ABSOLUTE_S",
        "A session ends after this long however much it is used, {least} to {most} seconds: browsers keep no cookie "
        "beyond 400 days (default: 30 days, SP 800-63B-4 §2.1.3).",
        default=30 * 86_400,
        limit=Limit(60, COOKIE_LIFE_S, "seconds", SESSION),
    ),
    Setting(
        "IRONAUTH_KEEP_DEVICE_DAYS",
        "How many days the second factor is not asked for on a device on which somebody has proved it and chosen to "
        "keep the device, {least} to {most}. 0: it is asked for at every sign-in. It is asked for all the same by an "
        "application that wants a new sign-in or acr_values=aal2, by the admin, and by acts that want a recent proof.",
        default=0,
        limit=Limit(0, 90, "days", "a device that is lost or sold unnoticed stands in for a factor as long"),
    ),
    Setting(
        "IRONAUTH_MAX_SESSIONS_PER_USER",
        "How many live sessions one person may have, {least} to {most}, those of applications included: with another "
        "one, the one that was not used for longest ends, of the application that has most.",
        default=100,
        limit=Limit(
            5, 1_000, "sessions", "a browser and an application take three with single sign-on; a list shows 1,000"
        ),
    ),
    Setting(
        "IRONAUTH_SIGN_IN_AS",
        "0 or 1 (off, on): whether staff who hold the permission accounts.sign_in_as may sign in as a person, from the "
        "person's page in the admin, for 30 minutes and to look only. Off ends such sessions at once.",
        default=False,
    ),
    Setting(
        "IRONAUTH_JWKS_MAX_AGE_S",
        "How long clients may keep the public key set, and so believe a compromised key, {least} to {most} seconds.",
        default=300,
        limit=Limit(0, 86_400, "seconds", "other applications believe a compromised key for that long"),
    ),
    Setting(
        "IRONAUTH_COOKIE_SECURE",
        "0 or 1: Secure cookies with the __Host- prefix, HSTS (default: 1 without DEBUG). 0 is refused unless "
        "IRONAUTH_ISSUER and all ALLOWED_HOSTS are loopback.",
        kind="switch",
        default=lambda given: not given["DEBUG"],
        example="1",
        accept=_not_exposed,
        refused="0 with a public issuer or host",
    ),
    Setting(
        "IRONAUTH_HSTS",
        "host, subdomains or preload: the hosts HSTS is for, with Secure cookies: this host, the hosts below it too "
        "(includeSubDomains), or that and browsers' own lists (preload, hard to leave).",
        default="host",
        choices=("host", "subdomains", "preload"),
        read=lambda env, _: addresses.hsts_reach(env),
        exported=False,
    ),
    Setting(
        "IRONAUTH_TRUSTED_ORIGINS",
        "Other origins whose pages may call the API and read its answers (CORS), with cookies too, e.g. "
        "https://app.example.com (default: none). Each as browsers send it: no path, no trailing slash, no *; http on "
        "loopback only.",
        default=(),
        accept=lambda value, _: addresses.origins(value, "IRONAUTH_TRUSTED_ORIGINS"),
        refused="an item that is no such origin",
    ),
    Setting(
        "IRONAUTH_SIMPLEJWT",
        "The paths of djangorestframework-simplejwt, for front ends that must not change. keep: a refresh token stays "
        "good until its session ends, as by SimpleJWT's defaults, so a stolen one is not noticed; rotate: each refresh "
        "gives a new one, as with ROTATE_REFRESH_TOKENS; off: none of the paths.",
        default="off",
        choices=("off", "keep", "rotate"),
    ),
    Setting(
        "IRONAUTH_SIMPLEJWT_PATH",
        "Where they are: this path, and refresh/, verify/ and blacklist/ below it.",
        kind="text",
        default=lambda given: "/api/token/",
        example="/api/token/",
        accept=lambda value, _: addresses.folder(value, "IRONAUTH_SIMPLEJWT_PATH"),
        refused="no path that begins and ends with a slash, or one that IronAuth has",
    ),
    Setting(
        "IRONAUTH_TRUSTED_PROXIES",
        "Addresses or networks of the reverse proxies whose X-Forwarded-For/-Proto count, e.g. 10.0.0.0/8; `unix` for "
        "a socket (default: none). Networks wider than 10.0.0.0/8 or fc00::/7 are refused.",
        default=(),
        accept=lambda value, _: addresses.networks(value, "IRONAUTH_TRUSTED_PROXIES"),
        refused="an item that is no address, or a wider network",
    ),
    Setting(
        "IRONAUTH_WEBAUTHN_RP_ID",
        "Passkeys: the host name they are bound to, that of the pages or one above it (default: the host of "
        "IRONAUTH_ISSUER, localhost for a loopback address). Another one later makes every passkey useless.",
        example="id.example.com",
        read=lambda env, given: _relying_party(env, given)[0],
        refused="no host name, or one that no page could use",
    ),
    Setting(
        "IRONAUTH_WEBAUTHN_ORIGINS",
        "The origins of the pages that may use passkeys, each at or below IRONAUTH_WEBAUTHN_RP_ID (default: "
        "IRONAUTH_ISSUER, and those of IRONAUTH_TRUSTED_ORIGINS that are).",
        default=(),
        example="https://id.example.com",
        read=lambda env, given: _relying_party(env, given)[1],
        refused="an origin outside that host name",
    ),
)


OAUTH = Section(
    "OAuth",
    Setting(
        "IRONAUTH_SSO_IDLE_S",
        "Somebody who signed in at /oauth/ is not asked again, by any application, until this browser has not been "
        "sent there for this long, {least} to {most} seconds, at most IRONAUTH_SSO_ABSOLUTE_S (default: a day, or "
        "that).",
        kind="whole",
        default=lambda given: min(86_400, given["IRONAUTH_SSO_ABSOLUTE_S"]),
        example="86400",
        limit=Limit(60, COOKIE_LIFE_S, "seconds", SESSION),
        accept=_idle_within("IRONAUTH_SSO"),
        refused="more than IRONAUTH_SSO_ABSOLUTE_S",
    ),
    Setting(
        "IRONAUTH_SSO_ABSOLUTE_S",
        "An SSO session ends after this long however often it is used, {least} to {most} seconds (default: 7 days).",
        default=7 * 86_400,
        limit=Limit(60, COOKIE_LIFE_S, "seconds", SESSION),
    ),
    Setting(
        "IRONAUTH_OAUTH_SITE_NAME",
        "The older name of IRONAUTH_BRAND_NAME, its default (default: the host of IRONAUTH_ISSUER).",
        kind="text",
        default=lambda given: urlsplit(given["IRONAUTH_ISSUER"]).netloc,
        example="id.example.com",
    ),
    Setting(
        "IRONAUTH_MTLS_ORIGIN",
        "The https:// origin at which the proxy asks clients for a certificate (RFC 8705). It writes X-SSL-Client-Cert "
        "and X-SSL-Client-Verify itself, on every host (default: none; no client proves itself by a certificate).",
        kind="text",
        default="",
        example="https://mtls.id.example.com",
        accept=lambda value, _: addresses.issuer(value, "IRONAUTH_MTLS_ORIGIN") if value else "",
        refused="no such origin",
    ),
    Setting(
        "IRONAUTH_UPSTREAM_NETWORKS",
        "Networks that are not public and that this server calls all the same to sign people in with another provider, "
        "e.g. 10.0.0.0/8 (default: none; this machine with DEBUG=1). A host name is resolved once, and judged.",
        kind="words",
        default=lambda given: ["127.0.0.0/8", "::1"] if given["DEBUG"] else [],
        accept=lambda value, _: addresses.private_networks(value, "IRONAUTH_UPSTREAM_NETWORKS"),
        refused="an item that is no address, or a network wider than 10.0.0.0/8 or fc00::/7",
    ),
    Setting(
        "IRONAUTH_LOGOUT_NETWORKS",
        "Networks that are not public and that this server calls all the same to tell applications of a sign-out "
        "(back-channel logout), unless strangers have made them, e.g. 10.0.0.0/8 (default: none; this machine with "
        "DEBUG=1). A host name is resolved once, and judged.",
        kind="words",
        default=lambda given: ["127.0.0.0/8", "::1"] if given["DEBUG"] else [],
        accept=lambda value, _: addresses.private_networks(value, "IRONAUTH_LOGOUT_NETWORKS"),
        refused="an item that is no address, or a network wider than 10.0.0.0/8 or fc00::/7",
    ),
)
