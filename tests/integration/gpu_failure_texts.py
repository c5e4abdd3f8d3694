"""Ways to produce each failure that needs no cluster on a scratch host: the cases of test_gpu_failure_texts.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import pytest

from tests.integration.failure_bench import LIBRARY, Bench, containerd, kubernetes
from tests.integration.scratch.driver import GPUS, VERSION

Text = Callable[[Bench], str]
SMI, CTK, UVM = "/usr/bin/nvidia-smi", "/usr/bin/nvidia-ctk", "/dev/nvidia-uvm"
TOOLKIT = "/etc/nvidia-container-runtime/config.toml"
NODES = tuple(f"/dev/nvidia{gpu.minor}" for gpu in GPUS)
ALL = "NVIDIA_VISIBLE_DEVICES=all"
MODE = 'mode = "cdi"'


def spec(*, nodes: tuple[str, ...] = (), mounts: tuple[tuple[str, str], ...] = ()) -> dict[str, object]:
    """Return a CDI spec whose device ``all`` has these device nodes and mounts."""
    edits = {
        "deviceNodes": [{"path": path} for path in nodes],
        "mounts": [{"hostPath": a, "containerPath": b, "options": ["ro", "rbind"]} for a, b in mounts],
    }
    return {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "all", "containerEdits": edits}]}


def no_devices(bench: Bench) -> str:
    with bench.without(*NODES):
        return bench.nvml() + bench.run_plugin()


def another_module(bench: Bench) -> str:
    return bench.sh(f"""
        sed 's/{VERSION}/998.1/' /proc/driver/nvidia/version >/run/version
        mount --bind /run/version /proc/driver/nvidia/version
        exec {bench.doctor_command("auto")}
    """)


def another_module_under_a_node(bench: Bench) -> str:
    return bench.node(f"""
        sed 's/{VERSION}/998.1/' /proc/driver/nvidia/version >/run/version
        mount --bind /run/version /proc/driver/nvidia/version
    """)


def no_uvm(bench: Bench) -> str:
    with bench.without(UVM):
        return bench.doctor()


def no_cuda(bench: Bench) -> str:
    cuda = LIBRARY.replace("nvidia-ml", "cuda")
    with bench.without(cuda):
        text = bench.sh(f"ldconfig; {bench.doctor_command('explicit-mounts')}")
    bench.sh("ldconfig")
    return text


def toolkit_in_mode_cdi(bench: Bench) -> str:
    return bench.sh(f"""
        sed 's/^\\[nvidia-container-runtime\\]/&\\nmode = "cdi"/' {TOOLKIT} >/run/config.toml
        mount --bind /run/config.toml {TOOLKIT}
        {bench.doctor_command("volume-mount")}
    """)


def windows(bench: Bench) -> str:
    with bench.without("/proc/driver/nvidia"):
        return bench.sh(f"touch /dev/dxg; {bench.doctor_command('auto')}; rm /dev/dxg")


def no_proc_driver(bench: Bench) -> str:
    with bench.without("/proc/driver/nvidia"):
        return bench.sh("umount -R /proc/driver/nvidia")


def mounted_toolkit(bench: Bench) -> str:
    return bench.sh(f"""
        mkdir -p /run/deb/DEBIAN /run/deb/usr/bin
        printf 'Package: kailab-ctk\\nVersion: 1\\nArchitecture: all\\nMaintainer: x <x@x>\\nDescription: x\\n' \
            >/run/deb/DEBIAN/control
        echo new >/run/deb/usr/bin/nvidia-ctk
        dpkg-deb -b /run/deb /run/ctk.deb
        mount --bind /bin/true {CTK}
        dpkg -i /run/ctk.deb
        dpkg --purge kailab-ctk >/dev/null 2>&1
    """)


def no_inotify(bench: Bench) -> str:
    return bench.sh(f"""
        mkdir -p /run/plugins
        unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_inotify_instances
            KUBELET_SOCKET=/run/plugins/kubelet.sock exec {bench.plugin}'
    """)


def old_cgroups(bench: Bench) -> str:
    if "cgroup2fs" in bench.sh("stat -fc %T /sys/fs/cgroup"):
        pytest.skip("this machine has cgroup v2")
    return bench.sh(f"""
        printf 'apiVersion: kubelet.config.k8s.io/v1beta1\\nkind: KubeletConfiguration\\nfailCgroupV1: true\\n' \
            >/run/kubelet
        timeout 20 {kubernetes("kubelet")} --config /run/kubelet --root-dir /run/kubelet-root | tail -n 3
    """)


def old_kubeadm_config(bench: Bench) -> str:
    return bench.sh(f"""
        printf 'apiVersion: kubeadm.k8s.io/v1beta2\\nkind: ClusterConfiguration\\n' >/run/kubeadm.yaml
        {kubernetes("kubeadm")} config validate --config /run/kubeadm.yaml
    """)


def missing_platform(bench: Bench) -> str:
    """Import an image whose index names a missing manifest, as kind does."""
    return bench.sh(f"""
        mkdir -p /run/image/blobs/sha256 && cd /run/image
        {sys.executable} - <<'END'
        import hashlib, json, pathlib
        index = "application/vnd.oci.image.index.v1+json"
        one = {{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:" + "0" * 64, "size": 2,
               "platform": {{"os": "linux", "architecture": "arm64"}}}}
        text = json.dumps({{"schemaVersion": 2, "mediaType": index, "manifests": [one]}})
        digest = hashlib.sha256(text.encode()).hexdigest()
        pathlib.Path("blobs/sha256", digest).write_text(text)
        top = {{"mediaType": index, "digest": f"sha256:{{digest}}", "size": len(text),
               "annotations": {{"io.containerd.image.name": "registry.kailab.dev/half:1"}}}}
        pathlib.Path("index.json").write_text(json.dumps({{"schemaVersion": 2, "manifests": [top]}}))
        pathlib.Path("oci-layout").write_text(json.dumps({{"imageLayoutVersion": "1.0.0"}}))
        END
        tar -cf /run/image.tar .
        containerd --root /run/c/root --state /run/c/state --address /run/c/sock >/run/containerd.log 2>&1 &
        for _ in $(seq 100); do ctr -a /run/c/sock version >/dev/null 2>&1 && break; sleep 0.1; done
        ctr -a /run/c/sock -n k8s.io images import --all-platforms --digests --snapshotter=native /run/image.tar
        kill -9 $!
        wait $!
    """)


def failing_gpu(bench: Bench) -> str:
    """Run the plugin without a kubelet to register with: it watches its GPUs all the same.

    An XID error is an event: it repeats until the starting plugin has received it.
    """
    return bench.sh(f"""
        conf=$(dirname {LIBRARY})/libnvidia-scratch.so.{VERSION}
        cat $conf >/run/nvml.conf
        sed 's/^gpu index=1 /&xid=79 /' $conf >/run/sick.conf
        mkdir -p /var/lib/kubelet/device-plugins
        KAILAB_NVML_CONFIG=/run/nvml.conf {bench.plugin} --kubelet-socket= >/run/plugin.log 2>&1 &
        for _ in $(seq 100); do
            cat /run/sick.conf >/run/nvml.conf
            sleep 0.3
            grep -q XidCriticalError /run/plugin.log && break
            cat $conf >/run/nvml.conf
            sleep 0.3
        done
        kill $!
        wait $!
        cat /run/plugin.log
    """)


def directory_for_a_library(bench: Bench) -> str:
    bench.sh("mkdir -p /run/libcuda.so.1")
    target = "/usr/lib/libcuda.so.1"
    rootfs = bench.host.home / "oci" / "rootfs"
    (rootfs / "usr" / "lib").mkdir(parents=True, exist_ok=True)
    (rootfs / target.lstrip("/")).touch()
    return bench.container(ALL, spec=spec(mounts=(("/run/libcuda.so.1", target),)))


CASES: Mapping[str, Text] = {
    "nvml-library-missing": lambda b: b.nvml(LIBRARY) + b.doctor("auto", LIBRARY),
    "driver-not-loaded": no_devices,
    "driver-mismatch": another_module,
    "machine-device-missing": no_uvm,
    "driver-files-unknown": no_cuda,
    "toolkit-missing": lambda b: b.doctor("auto", CTK),
    "toolkit-mode": toolkit_in_mode_cdi,
    "docker-default-runtime": lambda b: b.doctor(),
    "mounts-refused": lambda b: b.doctor(),
    "machine-cdi-spec": lambda b: b.doctor("cdi").splitlines()[-1],
    "wsl": windows,
    "proc-driver-missing": no_proc_driver,
    "proc-driver-not-mounted": lambda b: b.sh("umount -R /proc/driver/nvidia"),
    "inotify-limit": no_inotify,
    "cgroup-v1": old_cgroups,
    "kubeadm-old-config": old_kubeadm_config,
    "image-digest-missing": missing_platform,
    "dpkg-cross-device": mounted_toolkit,
    "containerd-config-broken": containerd("version = [", "failed to load TOML"),
    "containerd-default-unknown": containerd(
        'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd]\n  default_runtime_name = "nvidia"',
        "no corresponding runtime",
    ),
    "containerd-mirrors": containerd(
        'version = 2\n[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "/etc/containerd/certs.d"\n'
        '[plugins."io.containerd.grpc.v1.cri".registry.mirrors."localhost:5001"]\n  endpoint = ["http://r:5000"]',
        "cannot be set when",
    ),
    "handler-cgroups": lambda b: b.container(ALL, runc="runc.real --systemd-cgroup"),
    "low-level-runtime-missing": lambda b: b.container(ALL, config=(('"/usr/sbin/runc.real"', '"/usr/bin/nope"'),)),
    "toolkit-config-broken": lambda b: b.container(ALL, config=((MODE, "mode = ["),)),
    "toolkit-mode-unknown": lambda b: b.container(ALL, config=((MODE, 'mode = "nonsense"'),)),
    "toolkit-mode-legacy": lambda b: b.container(ALL, config=((MODE, 'mode = "legacy"'),)),
    "toolkit-mode-auto": lambda b: b.container(ALL, config=((MODE, 'mode = "auto"'),), hidden=(LIBRARY,)),
    "cdi-unresolvable": lambda b: b.container(ALL),
    "cdi-management": lambda b: b.container("NVIDIA_VISIBLE_DEVICES=management.nvidia.com/gpu=GPU-1"),
    "cdi-plugin-kind": lambda b: b.container("NVIDIA_VISIBLE_DEVICES=k8s.device-plugin.nvidia.com/gpu=GPU-1"),
    "device-missing": lambda b: b.container(ALL, spec=spec(nodes=("/dev/nvidia9",))),
    "driver-file-missing": lambda b: b.container(ALL, spec=spec(mounts=(("/usr/lib/libcuda.so.1", "/libcuda.so"),))),
    "driver-file-directory": directory_for_a_library,
    "driver-replaced": another_module_under_a_node,
    "params-open": lambda b: b.node(),
    "gpu-failed": failing_gpu,
    "smi-not-found": lambda b: b.container(runc="runc.real", program="nvidia-smi"),
    "plugin-strategy": lambda b: b.run_plugin("rror", LIBRARY),
    "plugin-nvml-missing": lambda b: b.run_plugin("rror", LIBRARY, DEVICE_DISCOVERY_STRATEGY="nvml"),
    "plugin-waits": lambda b: b.run_plugin("Waiting", LIBRARY, FAIL_ON_INIT_ERROR="false"),
    "plugin-no-kubelet": lambda b: b.run_plugin("Could not register"),
    "plugin-cdi-strategy": lambda b: b.run_plugin("rror", LIBRARY, DEVICE_LIST_STRATEGY="cdi-cri"),
}
"""Symptom → the function that produces it."""


AT_REST = {"containerd-down", "kubelet-down", "handler-missing", "toolkit-mode-auto", "cdi-spec-missing", "params-open"}
"""Symptoms of any scratch host diagnosed as a node: no containerd runs, and it is not set up."""


NOT_SET_UP = {"docker-default-runtime", "mounts-refused"}
"""Symptoms of a scratch host whose Docker and toolkit are not configured for GPUs."""


ALSO: Mapping[str, set[str]] = {
    "driver-replaced": AT_REST,
    "params-open": AT_REST,
    "docker-default-runtime": NOT_SET_UP,
    "mounts-refused": NOT_SET_UP,
    "plugin-waits": {"plugin-strategy"},
}
"""Further symptoms that appear."""


DOCKER: Mapping[str, tuple[str, ...]] = {
    "docker-runtime-unknown": ("--runtime", "nvidia"),
    "docker-no-gpu-driver": ("--gpus", "all"),
}
