"""What staff send about what a person signs in with."""

from typing import Any

from rest_framework import serializers

from accounts.fields import PasswordField


class SetPasswordInput(serializers.Serializer[Any]):
    """Body of ``PUT /users/{id}/password``; the policy is judged once it is known whose password it is."""

    new_password = PasswordField()
