"""What each shipped profile makes, needs and takes, for a user without a lab file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lab.config import LabSpec, load_profile, profile_names, profile_summary
from lab.paths import state_root
from lab.session.run_history import last_record
from lab.text import count


@dataclass(frozen=True)
class ProfileOffer:
    """A profile to choose; ``seconds`` its last 'kailab up' on this machine took, None before the first."""

    name: str
    summary: str
    needs: tuple[str, ...]
    seconds: float | None


def profile_offers() -> tuple[ProfileOffer, ...]:
    """The shipped profiles, the default first."""
    return tuple(
        ProfileOffer(name, profile_summary(name), tuple(_needs(load_profile(name, (), {}))), _seconds(name))
        for name in profile_names()
    )


def _needs(spec: LabSpec) -> Iterator[str]:
    yield count(spec.cluster.control_planes + spec.cluster.workers, "node container")
    if spec.gpu.mode == "nvidia":
        yield "NVIDIA's driver"
    elif spec.gpu.mode != "none":
        yield f"{count(sum(pool.nodes * pool.per_node for pool in spec.gpu_pools), 'simulated GPU')}"
    if spec.scheduler != "default":
        yield f"KAI {spec.kai.version}"
    if spec.tenants:
        yield count(len(spec.tenants), "vCluster")


def _seconds(name: str) -> float | None:
    record = last_record(state_root() / "runs" / name)
    return float(record["seconds"]) if record and record.get("ok") else None
