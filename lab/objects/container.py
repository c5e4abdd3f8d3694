"""The frozen view of one container of a pod: what it does now, and how its last run ended."""

from __future__ import annotations

from dataclasses import dataclass

from lab.objects.fields import Obj, parts


@dataclass(frozen=True)
class ContainerView:
    """A container's status."""

    name: str
    init: bool
    """An init container; a sidecar is one that goes on running."""
    ready: bool
    state: str
    """waiting, running, terminated, or empty before the kubelet has told."""
    reason: str
    message: str
    exit_code: int | None
    """Of this run, when it has ended."""
    last_reason: str
    """Why the run before ended, such as Error or OOMKilled."""
    last_exit: int | None
    last_message: str
    """What the runtime said of a run that could not be started."""
    restarts: int

    @classmethod
    def of(cls, obj: Obj, *, init: bool = False) -> ContainerView:
        """The view of an entry in a pod's containerStatuses."""
        states = obj.get("state") or {}
        name = next(iter(states), "")
        now = states.get(name) or {}
        before = (obj.get("lastState") or {}).get("terminated") or {}
        return cls(
            name=obj.get("name", ""),
            init=init,
            ready=bool(obj.get("ready")),
            state=name,
            reason=now.get("reason", ""),
            message=now.get("message", ""),
            exit_code=now.get("exitCode"),
            last_reason=before.get("reason", ""),
            last_exit=before.get("exitCode"),
            last_message=before.get("message", ""),
            restarts=int(obj.get("restartCount") or 0),
        )

    @classmethod
    def all_of(cls, pod: Obj) -> tuple[ContainerView, ...]:
        """All containers of a Pod object, init containers first."""
        status = parts(pod)[2]
        first = (cls.of(entry, init=True) for entry in status.get("initContainerStatuses") or [])
        return (*first, *(cls.of(entry) for entry in status.get("containerStatuses") or []))
