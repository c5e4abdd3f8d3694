"""Facts about KAI's releases, derived from the source at each tag by ``scripts/kai_facts`` into ``derived/``.

A version without data, such as a newer patch, has the facts of the newest known release before it. Each file has a
topic: name → list of ranges of releases and the value that they have in common. Topics:

- keys: labels and annotations that the code names: ``on`` (label, annotation; empty where the code does not show it),
  ``readers`` and ``writers`` (components, such as pod-grouper; "chart" for keys that the chart sets)
- chart_values: the chart's values by dotted key, with defaults; None for what templates read without a default, and
  for maps that they read as a whole
- unread_values: those of the chart's values.yaml that no template reads, so that setting them changes nothing
- crds: versions by name; queues: parent by name, of the queues that the chart creates
- plugins, actions: of the scheduler; whether each is on with the default placement
- images, binaries: names; webhooks: mutating or validating by the configuration's name
- events: reason → components that write it; messages: rules of ``kailab explain`` whose pattern the source contains
- support: SUPPORT.md and go.mod; see lab.kai.model.Support
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.errors import SpecError
from lab.kai.model import Support, release

FOLDER = Path(__file__).with_name("derived")

Topic = Mapping[str, Sequence[tuple[str, Any]]]
"""Name → pairs of ranges, such as ``0.9.4-0.9.20 0.12.0``, and value."""


@functools.cache
def releases() -> tuple[str, ...]:
    """The releases with data, oldest first."""
    return tuple(_read("releases"))


@functools.cache
def nearest(version: str) -> str:
    """The newest release with data that is not newer. Raises SpecError for invalid versions and those before all."""
    older = [one for one in releases() if release(one) <= release(version)]
    if not older:
        raise SpecError(f"KAI {version} is older than all known releases", fix=f"use KAI {releases()[0]} or newer")
    return older[-1]


@functools.cache
def having(topic: str, name: str) -> tuple[str, ...]:
    """The releases that have a name of a topic, oldest first."""
    return tuple(one for one in releases() if any(within(one, ranges) for ranges, _ in _topic(topic).get(name, ())))


@functools.cache
def at(topic: str, version: str) -> Mapping[str, Any]:
    """All names of a topic in a version, with their values."""
    one = nearest(version)
    return {name: value for name, pairs in _topic(topic).items() for ranges, value in pairs if within(one, ranges)}


_HOOK_IMAGES = {"crd-upgrader", "webhookmanager"}
_SCALING_IMAGES = {"nodescaleadjuster", "scalingpod"}
_OPTIONAL_IMAGES = {"numa-placement-exporter"}
"""Images of the hook Jobs, of what comes with clusterAutoscaling, and of what only a value that is off adds."""
_OPERATORS_WEBHOOKS = ("mutating-kai-admission", "validating-kai-admission")


def images(version: str) -> dict[str, tuple[str, ...]]:
    """The images that pods run by default, those of hook Jobs, and those of clusterAutoscaling, as VersionLine's."""
    named, programs = set(at("images", version)), set(at("binaries", version))
    by_default = named & programs - _HOOK_IMAGES - _SCALING_IMAGES - _OPTIONAL_IMAGES
    groups = {"images": by_default, "hook_images": named & _HOOK_IMAGES, "scaling_images": named & _SCALING_IMAGES}
    return {field: tuple(sorted(group)) for field, group in groups.items()}


def own_crds(version: str) -> tuple[str, ...]:
    """KAI's own CRDs, without Kueue's Topology."""
    return tuple(name for name in at("crds", version) if not name.endswith(".x-k8s.io"))


def webhooks(version: str) -> tuple[str, ...]:
    """The mutating webhook configuration, then the validating ones: of pods, of queues, of PodGroups."""
    found = at("webhooks", version)
    if "operator" not in at("images", version):  # its code is in 0.8.5, which does not run it
        found = {name: kinds for name, kinds in found.items() if name not in _OPERATORS_WEBHOOKS}
    validating = [name for name, kinds in found.items() if "validating" in kinds]
    mutating = [name for name, kinds in found.items() if "mutating" in kinds]
    return (*mutating, *sorted(validating, key=lambda name: ("podgroup" in name, "queue" in name)))


def topology_api(version: str) -> str:
    """API group and version of the Topology that the scheduler reads: KAI's own or Kueue's; empty without topology."""
    known = at("crds", version)
    own = known.get("topologies.kai.scheduler")
    kueues = known.get("topologies.kueue.x-k8s.io", ("v1alpha1",))
    return f"kai.scheduler/{own[0]}" if own else f"kueue.x-k8s.io/{kueues[0]}" if "topology" in plugins(version) else ""


_ANNOUNCED = re.compile(
    r"nvidia\.com/container\.[^/]+\.(?:gpu-memory\.(?:request|limit)|gpus\.devices|gpu-compute\.mode)"
    r"|kai\.scheduler/container\.[^/]+\.gpu-memory\.portion\.limit|gpu-fraction\.limit|gpu-memory\.limit"
)


def announced(key: str) -> str:
    """The first minor that a label or annotation is announced for, after all releases with data; empty if none is.

    Read in pkg/common/constants/constants.go and the page "NvFractions GPU Sharing" of KAI 0.18, not seen in a cluster.
    """
    return "0.18" if _ANNOUNCED.fullmatch(key) else ""


def chart_values(version: str) -> Mapping[str, Any]:
    """The chart's values of a version: dotted key → default."""
    return at("chart_values", version)


def has_value(version: str, key: str) -> bool:
    """Whether the chart of a version reads a dotted key: as such, as part of a map, or as the map above others."""
    unread = at("unread_values", version)
    known = {name: default for name, default in chart_values(version).items() if name not in unread}
    parts = key.split(".")
    above = [".".join(parts[:end]) for end in range(1, len(parts))]
    inside = any(one in known and (known[one] is None or isinstance(known[one], dict | list)) for one in above)
    return key in known or inside or any(one.startswith(f"{key}.") for one in known)


def plugins(version: str) -> frozenset[str]:
    """Plugins of the scheduler that are on by default."""
    return frozenset(name for name, on in at("plugins", version).items() if on)


def support(version: str) -> Support:
    """The support of a version's line. The line of a newest release is SUPPORT.md's ``main``."""
    minor = ".".join(version.removeprefix("v").split(".")[:2])
    newest = at("support", releases()[-1])
    kind, until = newest.get(minor, ("", ""))
    last = ".".join(releases()[-1].split(".")[:2])
    window = newest.get(f"kubernetes {minor}", newest["kubernetes main"] if minor == last else ())
    return Support(kind, until, tuple(window), at("support", version).get("libraries", ""))


def as_ranges(found: Iterable[str], order: Sequence[str]) -> str:
    """Releases as ranges within an order of releases, such as ``0.9.4-0.9.20 0.12.0``."""
    places = sorted(order.index(one) for one in found)
    starts = [place for place in places if place - 1 not in places]
    ends = [place for place in places if place + 1 not in places]
    return " ".join(
        order[start] if start == end else f"{order[start]}-{order[end]}"
        for start, end in zip(starts, ends, strict=True)
    )


def fingerprint(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """16 hexadecimal digits of the SHA-256 of all facts of a release."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def recorded_fingerprint(version: str) -> str:
    """The fingerprint that ``scripts/kai_facts`` recorded for a release."""
    return str(_read("releases")[version])


def as_text(names: Mapping[str, Any]) -> str:
    """A data file: one name a line."""
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in names.items())
    return f"{{\n{rows}\n}}\n"


def topics() -> tuple[str, ...]:
    """The topics with data."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json") if path.stem != "releases"))


@functools.cache
def _topic(name: str) -> Topic:
    data: Topic = _read(name)
    return data


def _read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return data


def within(version: str, ranges: str) -> bool:
    """Whether a release is in ranges such as ``0.9.4-0.9.20 0.12.0``, by the order of versions."""
    wanted = release(version)
    return any(release(first) <= wanted <= release(last or first) for first, last in _ends(ranges))


@functools.cache
def _ends(ranges: str) -> tuple[tuple[str, str], ...]:
    return tuple((match[1], match[2] or "") for match in re.finditer(r"([\d.]+)(?:-([\d.]+))?", ranges))
