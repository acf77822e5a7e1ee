"""Client libraries with the client that the README's line makes, and the page of the lines that each of them needs.

To add one: a program as ``clients/__init__.py`` describes, with the lines that its user writes between ``begin: NAME OF
THE FILE`` and ``end``, in comments; an entry in ``libraries.LIBRARIES``; then ``python -m
tokens.oauth.tests.clients.default.libraries``, which writes docs/oauth/libraries.md.
"""
