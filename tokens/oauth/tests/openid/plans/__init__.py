"""The plans of the suite, each in a file of its own: a new one is added here."""

from typing import Final

from tokens.oauth.tests.openid.plans import basic, config
from tokens.oauth.tests.openid.registry import Plan

PLANS: Final[tuple[Plan, ...]] = (config.PLAN, basic.PLAN, basic.FORM_POST)
