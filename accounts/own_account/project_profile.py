"""A project's own fields of a person, in the API: one model with a row for each person, registered once.

The path ``me/profile`` exists only where a model is registered, and only the fields that are named are in it.
"""

import uuid
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.db import IntegrityError, models, transaction
from django.db.models import QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.serializers import ModelSerializer

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.email import first_proof
from accounts.email.first_proof import Fate
from accounts.privacy import export
from accounts.users import rules as user_rules
from accounts.users.models import User
from ironauth.infrastructure.db.compiled import Param

#: What a request may write as it is. Other kinds, such as files, JSON and references, need a view of the project's own.
_KINDS: Final = (
    models.CharField,
    models.TextField,
    models.BooleanField,
    models.IntegerField,
    models.DecimalField,
    models.DateField,
    models.TimeField,
    models.UUIDField,
)
_SECTION: Final = "project_profile"


class ProjectProfile(NamedTuple):
    """The model, which names its person ``user``, and what reads and judges the fields that people see and change."""

    model: type[models.Model]
    serializer: type[ModelSerializer[Any]]


_registered: list[ProjectProfile] = []


def register(model: type[models.Model], *fields: str) -> None:
    """Put a project's own fields into ``GET`` and ``PATCH /api/v1/access/me/profile``, and into the export of a person.

    Call it in ``ready`` of the project's ``AppConfig``. The first proof of an address removes the row of its account:
    a stranger may have filled it. Another fate of the model is registered before (``email.first_proof``).

    Args:
        model: It has a one-to-one field ``user``. People without a row have the defaults of its fields.
        *fields: Those that each person may read and change of their own: text, numbers, truth values, dates.

    Raises:
        ImproperlyConfigured: A model is registered already, or this one, or one of the fields, is none of these.
    """
    if _registered:
        raise ImproperlyConfigured(f"{_registered[0].model.__name__} is registered already: one model is enough.")
    if not fields:
        raise ImproperlyConfigured(f"Name the fields of {model.__name__} that people may read and change.")
    _require_user(model)
    for name in fields:
        _require_plain(model, name)
    meta = type("Meta", (), {"model": model, "fields": fields})
    _registered.append(ProjectProfile(model, type(f"{model.__name__}Input", (ModelSerializer,), {"Meta": meta})))

    def rows(person: Param) -> QuerySet[Any, Any]:
        return model._default_manager.filter(user_id=person).values(*fields)  # noqa: SLF001 - Django's documented name

    export.register(_SECTION, rows, model)
    if model not in first_proof.rules():
        first_proof.register(model, Fate.REMOVED, "A stranger said it of themselves, before the owner came.")


def registered() -> ProjectProfile | None:
    """Return what a project has registered."""
    return _registered[0] if _registered else None


def read(*, user_id: uuid.UUID) -> Mapping[str, Any]:
    """Return somebody's fields; a unit of work, one query."""
    found = _registered[0]
    return dict(found.serializer(_row(found, user_id)).data)


def write(*, user_id: uuid.UUID, values: object, session_id: uuid.UUID | None) -> Mapping[str, Any]:
    """Change somebody's own fields; what is absent stays. A unit of work.

    Args:
        user_id: Whose they are.
        values: The body as it was sent; other names in it are ignored.
        session_id: The session it is done in.

    Returns:
        All of the fields, as they are now.

    Raises:
        ValidationError: DRF's; it names every bad field.
        NotAuthenticated: The account is gone or inactive.
    """
    found = _registered[0]
    user_rules.locked(user_id)  # of two first requests of one person at once the second waits for the row
    serializer = found.serializer(_row(found, user_id), data=values, partial=True)
    serializer.is_valid(raise_exception=True)
    if serializer.validated_data:
        try:
            with transaction.atomic():
                serializer.save()
        except IntegrityError as error:  # somebody else has taken a unique value at this moment
            raise ValidationError("This cannot be stored as it is.") from error
        audit.record_own(Event.PROFILE_CHANGED, user_id, session_id, fields=sorted(serializer.validated_data))
    return dict(serializer.data)


def _row(found: ProjectProfile, user_id: uuid.UUID) -> models.Model:
    rows = found.model._default_manager.filter(user_id=user_id)  # noqa: SLF001 - Django's documented name
    return rows.first() or found.model(user_id=user_id)


def _require_user(model: type[models.Model]) -> None:
    try:
        user = model._meta.get_field("user")  # noqa: SLF001 - Django's documented name
    except FieldDoesNotExist:
        user = None
    if not isinstance(user, models.OneToOneField) or user.related_model is not User:
        raise ImproperlyConfigured(f"{model.__name__} needs a OneToOneField to settings.AUTH_USER_MODEL called user.")


def _require_plain(model: type[models.Model], name: str) -> None:
    try:
        field = model._meta.get_field(name)  # noqa: SLF001 - likewise
    except FieldDoesNotExist as error:
        raise ImproperlyConfigured(f"{model.__name__} has no field {name!r}.") from error
    if not isinstance(field, _KINDS) or field.primary_key or not field.editable:
        raise ImproperlyConfigured(f"{model.__name__}.{name} is no field that people may change: write a view for it.")
