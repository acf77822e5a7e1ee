"""A whole API behind IronAuth in one file, to try ``resource_server.py`` and ``nginx-forward-auth.conf`` with.

``IRONAUTH_ISSUER=http://localhost:8000 python deploy/samples/django_api.py 3000`` serves on loopback until Ctrl-C:
``/by-keys`` and ``/by-introspection`` for callers with an access token, ``/behind-nginx`` for nginx alone. With
``IRONAUTH_CLIENT=client_id:client_secret`` in the environment the second one can ask. It needs Django,
``djangorestframework`` and ``pyjwt[crypto]``, the last of which IronAuth itself has no use for.
"""

import os
import sys
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIServer, make_server

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import path

ISSUER = os.environ["IRONAUTH_ISSUER"]
settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["127.0.0.1"],
    SECRET_KEY="nothing is signed with it",  # noqa: S106 - as it says
    INSTALLED_APPS=["rest_framework"],
    REST_FRAMEWORK={
        "UNAUTHENTICATED_USER": None,
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    },
    IRONAUTH_ISSUER=ISSUER,
    IRONAUTH_AUDIENCE=os.environ.get("IRONAUTH_AUDIENCE", ISSUER),
    IRONAUTH_CLIENT=tuple(os.environ.get("IRONAUTH_CLIENT", ":").split(":")),
)
application = get_wsgi_application()

# REST framework reads the settings above when it is imported.
from resource_server import ByIntrospection, ByKeys, HasScope  # noqa: E402 - as above
from rest_framework.request import Request  # noqa: E402 - as above
from rest_framework.response import Response  # noqa: E402 - as above
from rest_framework.views import APIView  # noqa: E402 - as above


class WhoAmI(APIView):
    """Tells who asks, to tokens with the scope profile."""

    authentication_classes = (ByKeys,)
    permission_classes = (HasScope,)
    required_scope = "profile"

    def get(self, request: Request) -> Response:
        """Answer with what the token says."""
        claims: Any = request.auth
        return Response({name: claims[name] for name in ("sub", "client_id")})


class BehindNginx(APIView):
    """Believes nginx, which has asked IronAuth: this port must be reachable by nothing else."""

    def get(self, request: Request) -> Response:
        """Answer with what nginx says, to tokens with the scope profile."""
        names = ("Subject", "Scope", "Roles", "Organization")
        said = {name: request.headers.get(f"X-Auth-{name}", "") for name in names}
        status = 200 if "profile" in said["Scope"].split() else 403
        return Response(said, status=status)


urlpatterns = [
    path("by-keys", WhoAmI.as_view()),
    path("by-introspection", WhoAmI.as_view(authentication_classes=[ByIntrospection])),
    path("behind-nginx", BehindNginx.as_view()),
]


class Threads(ThreadingMixIn, WSGIServer):
    """A thread for each request."""

    daemon_threads = True


if __name__ == "__main__":
    with make_server("127.0.0.1", int(sys.argv[1]), application, server_class=Threads) as server:
        server.serve_forever()
