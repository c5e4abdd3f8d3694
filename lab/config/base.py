"""Base class and value types of the lab file's models."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

_DNS_NAME = r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"
_IMAGE = r"^[A-Za-z0-9][A-Za-z0-9_.:/@+-]*$"
_VERSION = r"^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$"


def _dns_name(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(_DNS_NAME, value):
        raise PydanticCustomError(
            "dns_name", "must be 1 to 40 of a-z, 0-9 and '-', starting with a letter and not ending with '-'"
        )
    return value


def _version(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(_VERSION, value):
        return value
    if isinstance(value, str) and re.fullmatch(_VERSION, value.removeprefix("v")):
        raise PydanticCustomError("version", "must be a version without the leading v")
    raise PydanticCustomError("version", "must be a version of three numbers, such as 1.34.4")


def _image(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(_IMAGE, value):
        raise PydanticCustomError("image", "must be an image reference such as ghcr.io/org/app:1.2")
    return value


def _share(value: float) -> float:
    if -1 < value < 0:
        raise PydanticCustomError("share", "must be -1 (unlimited), 0 or more")
    return value


DnsName = Annotated[str, StringConstraints(pattern=_DNS_NAME), BeforeValidator(_dns_name)]
"""A lower-case DNS label of at most 40 characters: it becomes part of container, namespace and file names."""

Version = Annotated[str, StringConstraints(pattern=_VERSION), BeforeValidator(_version)]
"""A release such as 1.34.4, with three parts because YAML reads 1.34 as a number."""

Share = Annotated[float, Field(ge=-1, strict=True, allow_inf_nan=False), AfterValidator(_share)]
"""An amount of a resource; -1 is unlimited."""

Switch = Annotated[bool, Field(strict=True)]
"""true or false; strict, like the JSON Schema."""

ImageReference = Annotated[str, StringConstraints(pattern=_IMAGE), BeforeValidator(_image)]
"""An image reference; it becomes an argument of commands."""

Pin = Annotated[str, StringConstraints(pattern=r"^((sha256:)?[0-9a-f]{64})?$")]
"""A sha256 of a file or the digest of an image; empty for any content."""


class Model(BaseModel):
    """Base: frozen, unknown keys refused, camelCase in the file."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )
