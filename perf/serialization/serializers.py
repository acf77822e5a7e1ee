"""The objects' DRF serializers, written as every DRF tutorial has them."""

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from perf.serialization.payload import Exercise, Muscle, Named


class NamedSerializer(serializers.Serializer[Named]):
    """Something an exercise refers to."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    slug = serializers.SlugField()


class MuscleSerializer(serializers.Serializer[Muscle]):
    """A muscle group's part in an exercise."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    share = serializers.FloatField()
    is_primary = serializers.BooleanField()


class ExerciseSerializer(serializers.Serializer[Exercise]):
    """One element of the answer."""

    id = serializers.UUIDField()
    author_id = serializers.UUIDField(allow_null=True)
    name = serializers.CharField()
    slug = serializers.SlugField()
    description = serializers.CharField()
    difficulty = serializers.CharField()
    is_public = serializers.BooleanField()
    rest_s = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    archived_at = serializers.DateTimeField(allow_null=True)
    category = NamedSerializer()
    muscles = MuscleSerializer(many=True)
    equipment = NamedSerializer(many=True)
    tags = serializers.ListField(child=serializers.CharField())
    steps = serializers.ListField(child=serializers.CharField())


def serialized(exercises: Sequence[Exercise]) -> Any:
    """Return the list of dicts that DRF makes of the objects."""
    many: Any = exercises  # the stubs know the type of one instance only
    return ExerciseSerializer(many, many=True).data
