"""Ways to produce each known failure on a lab and to revert it: the cases of test_gpu_failures.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.gpu.simulated.fault_injection import GpuRef, fail, heal
from lab.gpu.simulated.health import Health
from lab.workloads.pods import fraction_pod, gpu_memory_pod
from tests.integration.broken_lab import RESERVATIONS, SECONDS, SPACE, BrokenLab
from tests.integration.broken_pods import bare_plugin, pod, reservation, victim

CONTAINERD = "/etc/containerd/config.toml"
TOOLKIT = "/etc/nvidia-container-runtime/config.toml"
CDI = "/etc/cdi/kailab.json"
RUNTIME = "/usr/bin/nvidia-container-runtime"
LIBRARY = "/usr/local/lib/kailab/nvml-*/libnvidia-ml.so.1"

DELETED = "KAI may delete a reservation pod without users first"
RESTARTED = "the API server goes away for a while with the runtime of the lab's only node"

Json = dict[str, Any]

Act = Callable[[BrokenLab], object]


@dataclass(frozen=True)
class Case:
    """How a failure is produced and reverted.

    Attributes:
        produce: causes it and waits until it shows; returns a command's output if it shows there.
        restore: reverts it, after the objects of the case were deleted.
        also: further symptoms that always appear.
        may: further symptoms that appear sometimes.
        kai: whether it needs KAI.
        unsteady: why it does not always occur on a busy machine; empty if it does.
    """

    produce: Act
    restore: Act = lambda _: None
    also: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()
    kai: bool = False
    unsteady: str = ""


def both(*acts: Act) -> Act:
    """Run functions one after another."""

    def act(g: BrokenLab) -> None:
        for one in acts:
            one(g)

    return act


def edited(path: str, change: str, then: str = "true") -> tuple[Act, Act]:
    """Edit a file of the node with sed; restore it, with its times, at the end."""
    kept = f"/var/tmp/kept-{path.replace('/', '-')}"
    return (
        lambda g: g.sh(f"cp -p {path} {kept}; sed -i '{change}' {path}; {then}"),
        lambda g: g.sh(f"mv {kept} {path}; {then}"),
    )


def file_case(path: str, change: str, *words: str, also: frozenset[str] = frozenset()) -> Case:
    """A case with an edited file of the node; with words, a pod fails with one of them."""
    change_it, put_back = edited(path, change)

    def produce(g: BrokenLab) -> None:
        change_it(g)
        if words:
            g.fails(victim(), *words)

    return Case(produce, put_back, also)


def containerd_case(change: str, *words: str) -> Case:
    """A case with an edited configuration of containerd, which restarts with it."""
    restart = "systemctl restart containerd"
    change_it, put_back = edited(CONTAINERD, change, restart)

    def produce(g: BrokenLab) -> None:
        change_it(g)
        steady(g)
        if words:
            g.fails(victim(), *words)

    return Case(produce, both(put_back, steady), unsteady=RESTARTED)


def steady(g: BrokenLab) -> None:
    """Wait until the node has been healthy for a while: the API server may restart some seconds after containerd."""
    g.offers(2, hold=10.0)


def moved(files: str, *words: str) -> Case:
    """A case that hides files of the node, by a shell pattern; with words, a pod fails with one of them."""

    def produce(g: BrokenLab) -> None:
        g.sh(f'for file in {files}; do mv "$file" "$file.away"; done')
        if words:
            g.fails(victim(), *words)

    return Case(produce, lambda g: g.sh(f'for file in {files}.away; do mv "$file" "${{file%.away}}"; done'))


def unit_case(unit: str) -> Case:
    return Case(
        lambda g: g.sh(f"systemctl stop {unit}"),
        both(lambda g: g.sh(f"systemctl start {unit}"), steady),
        # for a unit that is down, the whole journal of its last run counts, with entries of earlier cases
        may=frozenset({"plugin-no-kubelet", "handler-missing"}),
        unsteady=RESTARTED,
    )


def multiplied(g: BrokenLab) -> None:
    """Time-slicing: the plugin offers each GPU twice."""
    text = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 2\n"
    meta = {"name": "time-slicing", "namespace": "kube-system"}
    g.make({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"config.yaml": text}})

    def change(doc: Json) -> None:
        spec = doc["spec"]["template"]["spec"]
        spec["volumes"].append({"name": "config", "configMap": {"name": "time-slicing"}})
        box = spec["containers"][0]
        box["volumeMounts"].append({"name": "config", "mountPath": "/config"})
        box["env"].append({"name": "CONFIG_FILE", "value": "/config/config.yaml"})

    g.new_plugin(4, change)


def plugin_again(g: BrokenLab) -> None:
    g.new_plugin(2)


def class_gone(g: BrokenLab) -> None:
    g.cluster.delete("RuntimeClass", "nvidia", wait=SECONDS)
    template = {"metadata": {"labels": {"app": "wants"}}, "spec": {**victim()["spec"], "restartPolicy": "Always"}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "wants"}}, "template": template}
    g.make({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "wants"}, "spec": spec})
    g.cluster.wait(
        "Event",
        lambda events: any(one["reason"] == "FailedCreate" for one in events),
        namespace=SPACE,
        timeout=SECONDS,
        what="the Deployment's pod is refused",
    )


def insufficient(g: BrokenLab) -> str:
    # the event comes first, then the condition
    return str(g.unscheduled(pod("greedy", gpus=99), "Insufficient nvidia.com/gpu"))


def reservation_under_runc(g: BrokenLab) -> None:
    g.runtime_class("runc")
    g.make(fraction_pod("half", namespace=SPACE))
    g.cluster.wait(
        "Pod",
        lambda pods: any(_crashed(one) for one in pods),
        namespace=RESERVATIONS,
        timeout=SECONDS,
        what="the reservation pod has crashed",
    )


def _crashed(obj: Json) -> bool:
    states = (obj.get("status") or {}).get("containerStatuses") or []
    return any("terminated" in {**one.get("state", {}), **one.get("lastState", {})} for one in states)


def bind_gives_up(g: BrokenLab) -> None:
    g.binder_waits(10)
    g.runtime_class("runc")
    g.fails(fraction_pod("late", namespace=SPACE), "failed waiting for GPU reservation pod")


def reservations_again(g: BrokenLab) -> None:
    g.runtime_class("nvidia")
    g.empty("Pod", RESERVATIONS)


def class_again(g: BrokenLab) -> None:
    g.runtime_class("nvidia")
    g.gone("ReplicaSet", SPACE)


def several_seen(g: BrokenLab) -> None:
    meta = {"POD_NAME": "several", "POD_NAMESPACE": RESERVATIONS, "NVIDIA_VISIBLE_DEVICES": "all"}
    doc = pod(
        "several",
        image=g.reservation_image(),
        namespace=RESERVATIONS,
        env=meta,
        runtimeClassName="nvidia",
        serviceAccountName=g.reservation_account(),
    )
    del doc["spec"]["containers"][0]["command"]
    g.ends(doc)


def sharing_off(g: BrokenLab) -> str:
    g.kai_config({"admission": {"gpuSharing": False}})
    return g.refused(fraction_pod("shared", namespace=SPACE))


def sharing_on(g: BrokenLab) -> None:
    g.kai_config({"admission": {"gpuSharing": True}})
    g.accepted(fraction_pod("shared", namespace=SPACE))
    g.clear()


def no_memory_label(g: BrokenLab) -> None:
    g.label(memory=None)
    if g.kai:
        g.fails(gpu_memory_pod("by-memory", namespace=SPACE), "not synced")


def own_devices() -> Json:
    """Return a pod for KAI that requests a GPU and selects it itself; without a request KAI would override that."""
    doc = pod("greedy", gpus=1, env={"NVIDIA_VISIBLE_DEVICES": "all"}, labels={"kai.scheduler/queue": "test"})
    doc["metadata"]["namespace"] = SPACE
    doc["spec"]["schedulerName"] = "kai-scheduler"
    return doc


def devices_guarded(g: BrokenLab) -> str:
    g.kai_config({"admission": {"blockNvidiaVisibleDevices": True}})
    return g.refused(own_devices())


def devices_open(g: BrokenLab) -> None:
    g.kai_config({"admission": {"blockNvidiaVisibleDevices": False}})
    g.accepted(own_devices())
    g.clear()


CLASS = frozenset({"runtime-class-handler"})
CASES = {
    "containerd-not-restarted": Case(
        lambda g: g.sh(f"touch -d '1 minute' {CONTAINERD}"), lambda g: g.sh(f"touch -d 2020-01-01 {CONTAINERD}")
    ),
    "handler-missing": containerd_case(r"s/runtimes\.nvidia/runtimes.away/", "no runtime for"),
    "default-runtime-nvidia": containerd_case(r's/default_runtime_name = .*/default_runtime_name = "nvidia"/'),
    "containerd-down": unit_case("containerd"),
    "kubelet-down": unit_case("kubelet"),
    "runtime-missing": moved(RUNTIME, "nvidia-container-runtime"),
    "toolkit-config-broken": file_case(TOOLKIT, "1i mode = [", "error loading config", "did not terminate"),
    "toolkit-mode-legacy": file_case(TOOLKIT, 's/^mode = .*/mode = "legacy"/', "nvidia-container-"),
    "toolkit-mode-auto": file_case(TOOLKIT, 's/^mode = .*/mode = "auto"/', "unresolvable CDI devices"),
    "envvar-refused": file_case(TOOLKIT, "s/^\\(accept.*envvar-when-unprivileged\\) = .*/\\1 = false/"),
    "cdi-spec-missing": moved(CDI),
    "cdi-device-unnamed": file_case(CDI, "s/GPU-[0-9a-f-]*/GPU-another/"),
    "cdi-unresolvable": Case(lambda g: g.fails(victim(uuid="GPU-of-nobody"), "unresolvable CDI devices")),
    "device-missing": Case(
        both(lambda g: g.sh("rm /dev/nvidia1"), lambda g: g.fails(victim(), "failed to stat CDI host device")),
        lambda g: g.sh("systemctl restart kailab-gpu"),
    ),
    "device-foreign": Case(lambda g: g.sh("mknod /dev/nvidia7 c 195 7"), lambda g: g.sh("rm /dev/nvidia7")),
    "driver-file-missing": moved(LIBRARY, "error mounting"),
    "driver-file-directory": Case(
        lambda g: g.sh(f"lib=$(echo {LIBRARY}); mv $lib $lib.away; mkdir $lib"),
        lambda g: g.sh(f"lib=$(echo {LIBRARY}); rmdir $lib; mv $lib.away $lib"),
    ),
    "gpu-failed": Case(
        lambda g: fail(g.ctx, GpuRef(g.node, 1), Health(48)), lambda g: heal(g.ctx, [GpuRef(g.node, 1)])
    ),
    "plugin-strategy": Case(lambda g: g.ends(bare_plugin(g))),
    "plugin-nvml-missing": Case(lambda g: g.ends(bare_plugin(g, DEVICE_DISCOVERY_STRATEGY="nvml"))),
    "plugin-crashes": Case(lambda g: g.ends(bare_plugin(g, "--mig-strategy=nonsense"))),
    "plugin-missing": Case(BrokenLab.no_plugin, plugin_again, frozenset({"allocatable-short"})),
    "gpus-multiplied": Case(multiplied, plugin_again),
    "plugin-unwanted": Case(
        both(lambda g: g.label(present=None), lambda g: g.offers(0)),
        both(lambda g: g.label(present="true"), lambda g: g.served(2)),
        frozenset({"gpu-present-label"}),
    ),
    "smi-not-found": Case(lambda g: g.fails(pod("smi", command=("nvidia-smi", "-L")), "executable file not found")),
    "runtime-class-missing": Case(class_gone, class_again),
    "runtime-class-handler": Case(lambda g: g.runtime_class("runc"), lambda g: g.runtime_class("nvidia")),
    "gpus-insufficient": Case(insufficient),
    "kubelet-refused": Case(lambda g: g.ends(pod("refused", gpus=99, nodeName=g.node))),
    "gpu-memory-label": Case(no_memory_label, lambda g: g.label(memory=str(g.ctx.spec.gpu_pools[0].memory))),
    "reservation-nvml": Case(reservation_under_runc, reservations_again, CLASS, kai=True),
    "reservation-timeout": Case(
        bind_gives_up,
        both(reservations_again, lambda g: g.binder_waits(None)),
        CLASS,
        frozenset({"reservation-nvml", "reservation-waits"}),
        kai=True,
    ),
    "reservation-count": Case(several_seen, kai=True),
    "reservation-image": Case(
        lambda g: g.not_pulled(reservation("unpulled", image="registry.kailab.dev/none:1")), kai=True, unsteady=DELETED
    ),
    "reservation-failed": Case(
        lambda g: g.ends(reservation("refused", gpus=99, nodeName=g.node)),
        also=frozenset({"kubelet-refused"}),
        kai=True,
        unsteady=DELETED,
    ),
    "reservation-waits": Case(
        lambda g: g.runs(reservation("unready", container={"readinessProbe": {"exec": {"command": ["false"]}}})),
        kai=True,
        unsteady=DELETED,
    ),
    "visible-devices-set": Case(devices_guarded, devices_open, kai=True),
    "sharing-off": Case(sharing_off, sharing_on, kai=True),
    "fake-gpu-label": Case(lambda g: g.label(fake="true"), lambda g: g.label(fake=None)),
}
"""Symptom → its case; the last ones change KAI."""
