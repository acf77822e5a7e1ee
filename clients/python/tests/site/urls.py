"""The site's pages: who is signed in, and an API."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from ironauth_client.rest_framework import HasScopes, IronAuthAuthentication, LocalUserAuthentication
from rest_framework.decorators import api_view, authentication_classes, permission_classes
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView


def who(request: HttpRequest) -> HttpResponse:
    user: Any = request.user
    return HttpResponse((user.email or user.username) if user.is_authenticated else "nobody")


class Orders(APIView):
    authentication_classes = [IronAuthAuthentication]
    permission_classes = [HasScopes]
    required_scopes = ["read"]

    def get(self, request: Request) -> Response:
        return Response({"sub": request.user.pk})


class Mine(Orders):
    authentication_classes = [LocalUserAuthentication]


class Account(HasScopes):
    required_scopes = ["account"]


class Both(Orders):
    permission_classes = [Account]


@api_view(["GET"])
@authentication_classes([IronAuthAuthentication])
@permission_classes([Account])
def function(request: Request) -> Response:
    return Response({"sub": request.user.pk})


@api_view(["GET"])
@authentication_classes([IronAuthAuthentication])
@permission_classes([HasScopes])
def silent(request: Request) -> Response:
    return Response({"sub": request.user.pk})


urlpatterns = [
    path("both", Both.as_view()),
    path("function", function),
    path("silent", silent),
    path("mine", Mine.as_view()),
    path("who", who),
    path("orders", Orders.as_view()),
    path("ironauth/", include("ironauth_client.django.urls")),
]
