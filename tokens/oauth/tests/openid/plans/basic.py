"""Basic, and the same by ``response_mode=form_post``: the code flow of confidential clients without PKCE."""

from typing import Final

from tokens.oauth.tests.openid.plans import basic_claims, basic_flow, basic_requests
from tokens.oauth.tests.openid.registry import Plan

_MODULES: Final = (basic_flow.MODULES, basic_requests.MODULES, basic_claims.MODULES)
PLAN: Final = Plan("oidcc-basic-certification-test-plan", "Basic", _MODULES)
FORM_POST: Final = Plan("oidcc-formpost-basic-certification-test-plan", "Form Post Basic", _MODULES, mode="form_post")
