"""The modules of the OpenID Foundation's conformance suite as tests of a running server, each by its name.

A plan is a file in ``plans``. The page docs/oauth/conformance.md is made of them by
``python -m tokens.oauth.tests.openid.page``.
"""

import pytest

# Here, as tests of other rooms import them before the conftest of this one is read.
pytest.register_assert_rewrite("tokens.oauth.tests.openid.plans", "tokens.oauth.tests.openid.relying_party")
