"""The lab file as a whole: its fields, and the rules about how they go together."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from lab.config import gpu_rules, queue_rules, rules, tenant_rules
from lab.config.base import Model
from lab.config.sections import LabFields

_RULES = (rules, queue_rules, gpu_rules, tenant_rules)


class LabSpec(LabFields):
    """A whole lab."""

    @model_validator(mode="after")
    def _goes_together(self) -> LabSpec:
        if broken := [rule for part in _RULES for rule in part.broken(self)]:
            raise ValidationError.from_exception_data(
                "LabSpec",
                [
                    InitErrorDetails(
                        type=PydanticCustomError(rules.RULE, "{what}", {"what": rule.what, "about": rule.about}),
                        loc=rule.loc,
                        input=None,
                    )
                    for rule in broken
                ],
            )
        return self

    def warnings(self) -> tuple[str, ...]:
        """What is allowed but probably not meant, one sentence each, with the path of the field."""
        return tuple(said for part in _RULES for said in part.doubtful(self))


def type_at(loc: tuple[int | str, ...]) -> Any:
    """The annotation of the field at a place in the lab file.

    Any where the file is free-form, None where it has no field. ``type_at(("tenants", 0))`` is
    TenantSpec, ``type_at(("kai", "values", "x"))`` is Any.
    """
    here: Any = LabSpec
    for word in loc:
        if isinstance(here, type) and issubclass(here, Model):
            here = next((f.annotation for key, f in here.model_fields.items() if word == (f.alias or key)), None)
        elif getattr(here, "__origin__", None) is tuple:
            here = here.__args__[0] if isinstance(word, int) else None
        elif here is Any or getattr(here, "__origin__", None) is dict:
            here = Any
        else:
            return None
    return here
