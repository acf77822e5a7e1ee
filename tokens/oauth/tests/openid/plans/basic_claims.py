"""Modules of Basic about userinfo and claims."""

from typing import Final

from tokens.oauth.tests.openid.registry import Modules, Trial
from tokens.oauth.tests.openid.site import PROFILE

MODULES: Final = Modules()
#: OpenID Connect Core §5.4: what a scope stands for.
STANDARD: Final = {
    "profile": (
        "name", "family_name", "given_name", "middle_name", "nickname", "preferred_username", "profile", "picture",
        "website", "gender", "birthdate", "zoneinfo", "locale", "updated_at",
    ),
    "email": ("email", "email_verified"),
}  # fmt: skip
NOT_KEPT: Final = (
    "no account here has a gender, a birthdate, a picture, a website, a nickname and the like: "
    "what is not kept is not told"
)


@MODULES.add("oidcc-userinfo-get", "Userinfo by GET, with the token in the header.")
def userinfo_get(trial: Trial) -> None:
    """The person of the ID token."""
    client = trial.client()
    client.userinfo(client.sign_in(trial.browser()))


@MODULES.add("oidcc-userinfo-post-header", "Userinfo by POST, with the token in the header.")
def userinfo_post_header(trial: Trial) -> None:
    """The same as by GET."""
    client = trial.client()
    said = client.sign_in(trial.browser())
    answer = client.ask(said, "POST")
    assert answer.status_code == 200, answer.text
    assert answer.json() == client.userinfo(said)


@MODULES.add("oidcc-userinfo-post-body", "Userinfo by POST, with the token in a form.")
def userinfo_post_body(trial: Trial) -> None:
    """The same as by GET."""
    client = trial.client()
    said = client.sign_in(trial.browser())
    answer = client.http.post(client.path("userinfo_endpoint"), data={"access_token": said["access_token"]})
    trial.should(answer.status_code == 200, "userinfo takes no token in a form")
    assert answer.json() == client.userinfo(said)


def _told(trial: Trial, *scopes: str) -> None:
    """Check that userinfo tells what these scopes stand for, and the ID token does not."""
    client = trial.client()
    said = client.sign_in(trial.browser(), scope=" ".join(("openid", *scopes)))
    wanted = {claim for scope in scopes for claim in STANDARD[scope]}
    told = client.userinfo(said)
    assert not (told.keys() - wanted - {"sub"})
    kept = wanted & set(client.metadata["claims_supported"])
    trial.should(not kept & said["claims"].keys(), "claims of scopes are in the ID token")
    trial.should(told.keys() >= wanted, f"userinfo does not tell {sorted(wanted - told.keys())}")


@MODULES.add("oidcc-scope-profile", "The scope profile: its claims are told by userinfo.", warning=NOT_KEPT)
def scope_profile(trial: Trial) -> None:
    """Not by the ID token."""
    _told(trial, "profile")


@MODULES.add("oidcc-scope-email", "The scope email: address and whether it is verified, by userinfo.")
def scope_email(trial: Trial) -> None:
    """Not by the ID token."""
    _told(trial, "email")


@MODULES.add(
    "oidcc-scope-all",
    "All scopes of standard claims together.",
    skipped="`scopes_supported` names neither address nor phone: no account has one",
)
def scope_all(trial: Trial) -> None:
    """Those that scopes_supported names; the suite asks for all four, or for none."""
    assert not {"address", "phone"} & set(trial.client().metadata["scopes_supported"])
    _told(Trial(trial.site, trial.mode), *STANDARD)  # with the warning of the scope profile


@MODULES.add(
    "oidcc-scope-address", "The scope address.", skipped="`scopes_supported` does not name it: no account has one"
)
def scope_address(trial: Trial) -> None:
    """It is not offered."""
    assert "address" not in trial.client().metadata["scopes_supported"]


@MODULES.add("oidcc-scope-phone", "The scope phone.", skipped="`scopes_supported` does not name it: no account has one")
def scope_phone(trial: Trial) -> None:
    """It is not offered."""
    assert "phone" not in trial.client().metadata["scopes_supported"]


@MODULES.add("oidcc-claims-essential", "The claims parameter: the name, without the scope that stands for it.")
def claims_essential(trial: Trial) -> None:
    """Userinfo tells it, the ID token does not."""
    client = trial.client()
    said = client.sign_in(trial.browser(), claims='{"userinfo": {"name": {"essential": true}}}')
    trial.should(
        client.userinfo(said).get("name") == PROFILE["name"], "userinfo does not tell the name that was asked for"
    )
    trial.should("name" not in said["claims"], "the ID token tells what was asked of userinfo")
