"""FAPI 2.0 Security Profile, final: clients with private_key_jwt and DPoP (plain_fapi, openid_connect)."""

from typing import Final

from tokens.oauth.tests.openid.plans import (
    fapi2_assertions,
    fapi2_bad_proofs,
    fapi2_proofs,
    fapi2_pushed,
    fapi2_requests,
    fapi2_tokens,
)
from tokens.oauth.tests.openid.registry import Plan

PLAN: Final = Plan(
    "fapi2-security-profile-final-test-plan",
    "FAPI 2.0 Security Profile",
    (
        fapi2_requests.MODULES,
        fapi2_proofs.MODULES,
        fapi2_bad_proofs.MODULES,
        fapi2_pushed.MODULES,
        fapi2_assertions.MODULES,
        fapi2_tokens.MODULES,
    ),
)
