"""Freezes the nodes of a kind cluster, and continues them so that no node is taken for dead.

While the nodes are frozen, time goes on. kube-controller-manager would find all node leases expired, mark the nodes
NotReady and take every pod out of its Service before the kubelets have renewed them (seen with Kubernetes 1.34.4 after
75 s: KAI's webhook refused connections). So it is not running then: its static pod's manifest is moved away before
the nodes are frozen, and moved back once every node is Ready and has a lease that has not expired.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from lab.errors import ApiFailed, CommandFailed, WaitTimeout
from lab.kube import Cluster
from lab.kube.readiness import is_ready
from lab.objects.views import PodView
from lab.session.context import LabContext, is_control_plane
from lab.tools.container import Container

_AWAY = "/etc/kubernetes/kailab-paused"
_MANIFESTS = "/etc/kubernetes/manifests"
_CONTROLLERS = "kube-controller-manager"
_STOP = f"mkdir -p {_AWAY} && mv -f {_MANIFESTS}/{_CONTROLLERS}.yaml {_AWAY}/ 2>/dev/null || true"
_START = f"mv -f {_AWAY}/{_CONTROLLERS}.yaml {_MANIFESTS}/ 2>/dev/null || true"
_SECONDS = 60.0
_LEASES = "kube-node-lease"


def freeze(ctx: LabContext) -> int:
    """Freeze the lab's running nodes; returns how many. Repeating it finishes an interrupted one.

    If that fails, all run on as before. Raises ApiFailed, CommandFailed, WaitTimeout.
    """
    nodes = [node for node in ctx.nodes() if node.state == "running"]
    if not nodes:
        return 0
    ctx.paths.paused.touch(mode=0o600)  # first: after a kill, 'kailab resume' starts the controllers again
    try:
        _controllers(ctx, nodes, _STOP)
        if _control_planes(nodes):
            ctx.progress("waiting until no controller runs")
            ctx.cluster().wait(
                "Pod",
                lambda pods: not pods,
                namespace="kube-system",
                labels=f"component={_CONTROLLERS}",
                timeout=_SECONDS,
                what="kube-controller-manager has stopped",
            )
        ctx.engine.pause(*(node.name for node in nodes))
    except (ApiFailed, CommandFailed, WaitTimeout):
        thaw(ctx)
        raise
    return len(nodes)


def thaw(ctx: LabContext) -> int:
    """Continue the lab's frozen nodes, and wait until all of them are Ready; returns how many were frozen.

    Repeating it finishes an interrupted one; a lab that is not paused is left alone. Raises ApiFailed, WaitTimeout.
    """
    nodes = ctx.nodes()
    frozen = [node.name for node in nodes if node.state == "paused"]
    if not frozen and not ctx.paths.paused.exists():
        return 0
    if frozen:
        ctx.engine.call("unpause", *frozen)
    cluster = ctx.cluster()
    if not cluster.poll(cluster.healthy, timeout=_SECONDS, interval=0.1):
        raise ApiFailed(
            f"the API server of {ctx.kind_name} did not answer within {_SECONDS:.0f} s of its continuation",
            fix=f"docker logs {ctx.kind_name}-control-plane, or kailab down and kailab up",
        )
    if frozen:
        ctx.progress("waiting until all nodes are Ready and their leases valid")
        late = cluster.poll(lambda: _late(cluster), until=lambda found: not found, timeout=_SECONDS, interval=0.2)
        if late:
            raise WaitTimeout(
                f"nodes of {ctx.kind_name} are not Ready {_SECONDS:.0f} s after they continued: {', '.join(late)}",
                fix=cluster.kubectl("describe", "nodes"),
            )
    _controllers(ctx, nodes, _START)
    wanted = len(_control_planes(nodes))
    # without their pods, another pause would find none to wait for while the kubelets start them
    cluster.wait(
        "Pod",
        lambda pods: sum(PodView.of(pod).phase == "Running" for pod in pods) >= wanted,
        namespace="kube-system",
        labels=f"component={_CONTROLLERS}",
        timeout=_SECONDS,
        what="kube-controller-manager runs again",
    )
    ctx.paths.paused.unlink(missing_ok=True)
    return len(frozen)


def _late(cluster: Cluster) -> list[str]:
    """Nodes that are not Ready, or whose lease has expired: a kubelet renews that at once when it continues."""
    now, valid = datetime.now(UTC), set[str]()
    for lease in cluster.list("Lease", _LEASES):
        spec = lease["spec"]
        if datetime.fromisoformat(spec["renewTime"]) + timedelta(seconds=spec["leaseDurationSeconds"]) > now:
            valid.add(lease["metadata"]["name"])
    nodes = cluster.list("Node")
    return [node["metadata"]["name"] for node in nodes if not (is_ready(node) and node["metadata"]["name"] in valid)]


def _controllers(ctx: LabContext, nodes: Sequence[Container], script: str) -> None:
    for name in _control_planes(nodes):
        ctx.engine.exec(name, ["sh", "-c", script])


def _control_planes(nodes: Sequence[Container]) -> list[str]:
    return [node.name for node in nodes if is_control_plane(node)]
