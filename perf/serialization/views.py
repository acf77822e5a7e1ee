"""The same answer four ways. Each view has prepared objects, as if its query had just returned them."""

from rest_framework.permissions import AllowAny
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response

from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from perf.serialization.outputs import ExerciseOut, converted
from perf.serialization.payload import exercises
from perf.serialization.serializers import serialized

OBJECTS = exercises()
STRUCTS = converted(OBJECTS)


class _Open(AsyncAPIView):
    """For everybody: there is nothing to protect, and no token to verify in the measurement."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    schema = None  # not of the contract: never in the OpenAPI document


class StructsView(_Open):
    """Structs, as IronAuth's own endpoints answer."""

    async def get(self, _request: ApiRequest) -> list[ExerciseOut]:
        """Answer with Structs that exist already: MsgspecRenderer encodes them."""
        return STRUCTS


class ConvertedView(_Open):
    """Structs that have to be made of other objects first."""

    async def get(self, _request: ApiRequest) -> list[ExerciseOut]:
        """Make the Structs of the very objects the serializer reads, in every request."""
        return converted(OBJECTS)


class SerializerView(_Open):
    """DRF as it comes, but for the view being async."""

    renderer_classes = (JSONRenderer,)

    async def get(self, _request: ApiRequest) -> Response:
        """Serialize the objects; JSONRenderer encodes what comes of it."""
        return Response(serialized(OBJECTS))


class SerializerMsgspecView(_Open):
    """DRF's serializer with the faster JSON writer."""

    async def get(self, _request: ApiRequest) -> Response:
        """Serialize the objects; MsgspecRenderer encodes what comes of it."""
        return Response(serialized(OBJECTS))
