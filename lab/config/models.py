"""The whole lab file: its fields and the rules between them."""

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
    def _apply_rules(self) -> LabSpec:
        errors = []
        for rule in (rule for part in _RULES for rule in part.violations(self)):
            kind = PydanticCustomError(rules.RULE, "{what}", {"what": rule.what, "about": rule.about})
            errors.append(InitErrorDetails(type=kind, loc=rule.loc, input=None))
        if errors:
            raise ValidationError.from_exception_data("LabSpec", errors)
        return self

    def warnings(self) -> tuple[str, ...]:
        """Warnings about values that are valid but probably unintended, each with the path of the field."""
        return tuple(warning for part in _RULES for warning in part.warnings(self))


def type_at(loc: rules.Loc) -> Any:
    """The annotation of the field at a place in the lab file: Any for free-form values, None for unknown fields.

    ``type_at(("tenants", 0))`` is TenantSpec, ``type_at(("kai", "values", "x"))`` is Any.
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
