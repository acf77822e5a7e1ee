"""The modules of the OpenID Foundation's conformance suite as tests of a running server, each by its name.

A plan is a file in ``plans``. The page docs/oauth/conformance.md is made of them by
``python -m tokens.oauth.tests.openid.page``.
"""
