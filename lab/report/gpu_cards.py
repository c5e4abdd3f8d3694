"""The map of GPUs as a picture: measures of every bar, letter and line; the templates only draw them.

A card is one GPU in an SVG of its own, so that cards flow to the width of the page, on a telephone too. Colours
stand for tenants; pods have letters, states have a sign and a word, so nothing is said by colour alone.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lab.gpu.map.model import Gpu, GpuMap, GpuState, Holder, NodeGpus, WaitingPod, short
from lab.gpu.map.text import memory_text, node_words, state_text
from lab.text import count

WIDTH = 208
"""Width of a card in user units; text is laid out for it."""

MARGIN = 10
_BAR = WIDTH - 2 * MARGIN
_HEAD = 78
_RESERVED = 12
"""Height of the line with the reservation pod."""

_FOOT = 8
_ROW = 28
_ROWS = 4
"""Pods that are named on a card; of more, how many."""

_CHAR = 6.05
"""Width of one character of the cards' monospace font (10 px)."""

MANY = 16
"""GPUs from which cards are folded away under the strip."""

STRIP = 8
"""GPUs from which there is a strip."""

TONES = 6
"""Colours for tenants before they come again."""

SIGNS = {GpuState.FREE: "○", GpuState.SHARED: "◐", GpuState.WHOLE: "●", GpuState.OVER: "✗", GpuState.UNHEALTHY: "!"}


@dataclass(frozen=True)
class Segment:
    """The share of one pod in a bar; ``letter`` is empty where there is no room for it."""

    x: float
    width: float
    tone: int
    letter: str
    title: str


@dataclass(frozen=True)
class CardRow:
    """One pod on a card."""

    y: int
    letter: str
    tone: int
    name: str
    asked: str
    about: str
    title: str


@dataclass(frozen=True)
class Card:
    """One GPU."""

    name: str
    uuid: str
    state: str
    kind: str
    """Name of the state for the style sheet."""
    given: str
    reservation: str
    segments: tuple[Segment, ...]
    rows: tuple[CardRow, ...]
    more: str
    height: int
    title: str
    fill: int
    """Percent given away, for the strip."""
    sign: str
    changed: bool = False


@dataclass(frozen=True)
class NodePicture:
    """One node and its cards."""

    name: str
    words: str
    bad: bool
    cards: tuple[Card, ...]
    unplaced: tuple[str, ...]


@dataclass(frozen=True)
class GpuCards:
    """The whole map."""

    title: str
    summary: str
    counts: tuple[tuple[str, str, str, int], ...]
    """Sign, word, name for the style sheet, and how many, for each state."""
    nodes: tuple[NodePicture, ...]
    waiting: tuple[WaitingPod, ...] = ()
    notes: tuple[str, ...] = ()
    legend: tuple[tuple[int, str], ...] = ()
    """Tone and tenant."""
    folded: bool = False
    strip: bool = False
    others: int = 0
    """Nodes without GPUs."""

    @property
    def changed(self) -> bool:
        return any(card.changed for node in self.nodes for card in node.cards)


@dataclass(frozen=True)
class Tones:
    """Colours of tenants: the same in all pictures of a page."""

    of: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def over(cls, maps: Iterable[GpuMap]) -> Tones:
        """Colours for all tenants in some maps; the host has the first one."""
        tenants = sorted({holder.tenant for gpus in maps for holder, _ in gpus.holders if holder.tenant})
        return cls({"": 0, **{tenant: 1 + n % (TONES - 1) for n, tenant in enumerate(tenants)}})


def picture_of(gpus: GpuMap, title: str, tones: Tones, before: GpuMap | None = None) -> GpuCards:
    """The picture of a map.

    Args:
        gpus: the map.
        title: what the picture shows.
        tones: colours of tenants.
        before: an earlier map; GPUs that differ from it are marked.
    """
    earlier = {gpu.uuid: _matter(gpu) for gpu in before.gpus if gpu.uuid} if before else {}
    present = {holder.tenant for holder, _ in gpus.holders}
    return GpuCards(
        title=title,
        summary=_summary(gpus),
        counts=tuple((SIGNS[s], s.value, s.name.lower(), gpus.count(s)) for s in GpuState),
        nodes=tuple(_node(node, tones, earlier) for node in gpus.nodes),
        waiting=gpus.waiting,
        notes=gpus.notes,
        legend=tuple((tone, tenant or "host") for tenant, tone in tones.of.items() if tenant in present),
        folded=len(gpus.gpus) > MANY,
        strip=len(gpus.gpus) > STRIP,
        others=gpus.others,
    )


def segments(holders: Sequence[Holder], tones: Tones) -> tuple[Segment, ...]:
    """The bar of a GPU; shares of more than 1 together are drawn over the whole bar."""
    total = max(1.0, sum(holder.share or 0.0 for holder in holders))
    found, x = [], 0.0
    for number, holder in enumerate(holders):
        width = (holder.share or 0.0) / total * _BAR
        mark = letter(number) if width >= _CHAR + 3 else ""
        found.append(
            Segment(round(MARGIN + x, 2), round(width, 2), tones.of.get(holder.tenant, 0), mark, _told(holder))
        )
        x += width
    return tuple(found)


def letter(number: int) -> str:
    """What the pod of this number is called on its GPU."""
    return string.ascii_lowercase[number] if number < len(string.ascii_lowercase) else "+"


def fit(text: str, width: float) -> str:
    """``text`` cut in the middle to what fits ``width`` user units: names differ at both ends."""
    room = max(1, int(width / _CHAR))
    if len(text) <= room:
        return text
    keep = room - 1
    return f"{text[: (keep + 1) // 2]}…{text[len(text) - keep // 2 :] if keep > 1 else ''}"


def _node(node: NodeGpus, tones: Tones, earlier: Mapping[str, object]) -> NodePicture:
    return NodePicture(
        name=node.name,
        words=" · ".join(node_words(node)),
        bad=not node.ready or node.cordoned,
        cards=tuple(_card(gpu, tones, earlier) for gpu in node.gpus),
        unplaced=tuple(_told(holder) for holder in node.unplaced),
    )


def _card(gpu: Gpu, tones: Tones, earlier: Mapping[str, object]) -> Card:
    shown = gpu.holders if len(gpu.holders) <= _ROWS else gpu.holders[: _ROWS - 1]
    hidden = len(gpu.holders) - len(shown)
    head = _HEAD + (_RESERVED if gpu.reservations else 0)
    reserved = ", ".join(gpu.reserved_by)
    return Card(
        name="GPU ?" if gpu.index is None else f"GPU {gpu.index}",
        uuid=short(gpu.uuid) or "UUID unknown",
        state=f"{SIGNS[gpu.state]} {gpu.state.value}",
        kind=gpu.state.name.lower(),
        given=fit(_given(gpu), _BAR),
        reservation=fit(f"reserved by {reserved}", _BAR) if reserved else "",
        segments=segments(gpu.holders, tones),
        rows=tuple(_row(n, holder, tones, head + _ROW * n) for n, holder in enumerate(shown)),
        more=f"and {hidden} more" if hidden else "",
        height=head + _ROW * len(shown) + (18 if hidden else 0) + _FOOT,
        title="\n".join(
            [
                f"{gpu.title}: {state_text(gpu)}",
                *([gpu.uuid] if gpu.uuid else []),
                f"{gpu.model} {memory_text(gpu.memory)}",
                *(f"reserved by {name}" for name in gpu.reservations),
                *map(_told, gpu.holders),
            ]
        ),
        fill=min(100, round(gpu.used * 100)),
        sign=SIGNS[gpu.state],
        changed=bool(earlier) and earlier.get(gpu.uuid) != _matter(gpu),
    )


def _given(gpu: Gpu) -> str:
    """What is wrong with it, and how much of it is given away."""
    if gpu.state is GpuState.UNHEALTHY:
        return gpu.trouble
    unknown = "at least " if any(holder.share is None for holder in gpu.holders) else ""
    free = f", {gpu.free:.0%} free" if gpu.free else ""
    given = f"{unknown}{gpu.used:.0%} given away{free}".replace("%", " %")
    return f"{gpu.trouble}: {given}" if gpu.trouble else given


def _row(number: int, holder: Holder, tones: Tones, y: int) -> CardRow:
    asked = holder.asked
    calm = holder.phase == "Running"
    about = [holder.tenant or "host", *([holder.queue] if holder.queue else []), *([] if calm else [holder.phase])]
    return CardRow(
        y=y,
        letter=letter(number),
        tone=tones.of.get(holder.tenant, 0),
        name=fit(holder.title, _BAR - 18 - _CHAR * (len(asked) + 1)),
        asked=asked,
        about=fit(" · ".join(about), _BAR - 18),
        title=_told(holder),
    )


def _told(holder: Holder) -> str:
    """A pod in one line."""
    words = [f"{holder.title}: {holder.asked}", holder.phase]
    words += [f"tenant {holder.tenant}"] if holder.tenant else []
    words += [f"queue {holder.queue}"] if holder.queue else []
    return ", ".join(words)


def _matter(gpu: Gpu) -> object:
    """What makes a GPU look different from one picture to the next."""
    return gpu.state, gpu.trouble, tuple((holder.title, holder.tenant, holder.asked) for holder in gpu.holders)


def _summary(gpus: GpuMap) -> str:
    if not gpus.nodes:
        return "There are no GPUs"
    where = f"{count(len(gpus.gpus), 'GPU')} on {count(len(gpus.nodes), 'node')}"
    return f"{where}, largest free share {gpus.largest_free:g}"
