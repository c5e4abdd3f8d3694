"""The GPU map on a page: colours of tenants, marks of changes, and words; ``gpus.html.j2`` draws it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lab.gpu.map.legend import letter
from lab.gpu.map.model import Gpu, GpuMap, GpuState, Holder
from lab.gpu.map.text import memory_text, state_text

TONES = 6
"""Colours for tenants before they repeat."""

LETTER_ROOM = 5.0
"""Smallest part of a bar that has room for a letter, in percent."""


@dataclass(frozen=True)
class GpuPicture:
    """A GPU map to be drawn."""

    title: str
    gpus: GpuMap
    tones: Mapping[str, int]
    """Colour of each tenant; the host's name is empty."""
    changed: frozenset[str] = frozenset()
    """UUIDs of the GPUs that differ from an earlier map."""

    @property
    def legend(self) -> list[tuple[int, str]]:
        """Colour and name of each tenant in the map."""
        present = {holder.tenant for holder, _ in self.gpus.holders}
        return [(tone, tenant or "host") for tenant, tone in self.tones.items() if tenant in present]


def tones_of(maps: Iterable[GpuMap]) -> dict[str, int]:
    """Colours of all tenants in these maps, the same in all pictures of a page; the host has the first one."""
    tenants = sorted({holder.tenant for gpus in maps for holder, _ in gpus.holders if holder.tenant})
    return {"": 0, **{tenant: 1 + n % (TONES - 1) for n, tenant in enumerate(tenants)}}


def changed(before: GpuMap, after: GpuMap) -> frozenset[str]:
    """UUIDs of the GPUs that look different in a later map; none if the earlier map knows no UUIDs."""
    earlier = {gpu.uuid: _look(gpu) for gpu in before.gpus if gpu.uuid}
    return frozenset(gpu.uuid for gpu in after.gpus if earlier and earlier.get(gpu.uuid) != _look(gpu))


def bar(gpu: Gpu) -> list[tuple[Holder, float, str]]:
    """Each pod of a GPU with its part of the bar in percent, and its letter; shares above 1 in total fill the bar."""
    total = max(1.0, sum(holder.share or 0.0 for holder in gpu.holders))
    widths = [round((holder.share or 0.0) / total * 100, 2) for holder in gpu.holders]
    return [
        (holder, width, letter(n) if width >= LETTER_ROOM else "")
        for n, (holder, width) in enumerate(zip(gpu.holders, widths, strict=True))
    ]


def usage(gpu: Gpu) -> str:
    """The problem of a GPU, and its used and free share."""
    if gpu.state is GpuState.UNHEALTHY:
        return gpu.trouble
    unknown = "at least " if any(holder.share is None for holder in gpu.holders) else ""
    free = f", {gpu.free:.0%} free" if gpu.free else ""
    words = f"{unknown}{gpu.used:.0%} used{free}".replace("%", " %")
    return f"{gpu.trouble}: {words}" if gpu.trouble else words


def pod_line(holder: Holder) -> str:
    """A pod in one line."""
    words = [f"{holder.title}: {holder.asked}", holder.phase]
    words += [f"tenant {holder.tenant}"] if holder.tenant else []
    words += [f"queue {holder.queue}"] if holder.queue else []
    return ", ".join(words)


def tooltip(gpu: Gpu) -> str:
    """All facts about a GPU, one per line."""
    lines = [f"{gpu.title}: {state_text(gpu)}", gpu.uuid, f"{gpu.model} {memory_text(gpu.memory)}"]
    lines += [f"reserved by {name}" for name in gpu.reservations]
    return "\n".join(line for line in (*lines, *map(pod_line, gpu.holders)) if line)


def _look(gpu: Gpu) -> object:
    return gpu.state, gpu.trouble, tuple((holder.title, holder.tenant, holder.asked) for holder in gpu.holders)
