"""The plans of the suite, each in a file of its own: a new one is added here."""

from typing import Final

from tokens.oauth.tests.openid.plans import (
    back_channel_logout,
    basic,
    config,
    dynamic,
    fapi2_certificates,
    fapi2_security,
    message_signing,
    rp_logout,
)
from tokens.oauth.tests.openid.registry import Plan

PLANS: Final[tuple[Plan, ...]] = (
    config.PLAN,
    basic.PLAN,
    basic.FORM_POST,
    rp_logout.PLAN,
    back_channel_logout.PLAN,
    dynamic.PLAN,
    fapi2_security.PLAN,
    *fapi2_certificates.PLANS,
    message_signing.PLAN,
)
