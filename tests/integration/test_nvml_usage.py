"""Processes on simulated GPUs: gpu-usage over a fake /proc, and the library's answers to pynvml."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.integration.simulated_node import GPUS, OWN_PIDNS, SimulatedNode, simulated_node

MEMORY = GPUS[0].memory
OTHER_PIDNS = OWN_PIDNS + 7

ASK = """
nvmlInit()
hs = [nvmlDeviceGetHandleByIndex(i) for i in range(nvmlDeviceGetCount())]
def used(h):
    return nvmlDeviceGetMemoryInfo(h).used >> 20
def runs(h):
    return [[p.pid, p.usedGpuMemory >> 20, p.gpuInstanceId] for p in nvmlDeviceGetComputeRunningProcesses(h)]
"""


@pytest.fixture
def node(tmp_path: Path) -> SimulatedNode:
    made = simulated_node(tmp_path)
    made.configure(*GPUS[:3])
    made.give(0, 1, 2)
    return made


class Proc:
    """A fake /proc, with processes of the node and of containers."""

    def __init__(self, node: SimulatedNode) -> None:
        self.node = node
        self.root = node.root / "proc"
        self._link(self.root / "self", OWN_PIDNS)

    def process(
        self,
        pid: int,
        *gpus: int,
        started: int = 100,
        pidns: int | None = None,
        inner: int = 1,
        container: str = "",
        privileged: bool = False,
        **env: str,
    ) -> None:
        """Add a process whose container has these GPUs; by default each pid has its own container."""
        folder = self.root / str(pid)
        self._link(folder, OTHER_PIDNS + pid if pidns is None else pidns)
        (folder / "root" / "dev").mkdir(parents=True)
        for name in [f"nvidia{gpu}" for gpu in gpus] + (["nvidiactl"] if gpus or privileged else []):
            (folder / "root" / "dev" / name).touch()
        ident = (container or f"{pid:x}").rjust(64, "0")
        scope = f"/kubelet.slice/kubelet-kubepods.slice/pod.slice/cri-containerd-{ident}.scope"
        (folder / "cgroup").write_text(f"0::{scope}\n")
        (folder / "status").write_text(f"Name:\tsh\nNSpid:\t{pid}\t{inner}\nThreads:\t1\n")
        (folder / "stat").write_text(f"{pid} (a ) b) S " + " ".join(["0"] * 18) + f" {started} 0 0\n")
        variables = {"PATH": "/bin", **env, "LAST": "x"}
        (folder / "environ").write_bytes(b"".join(f"{key}={value}\0".encode() for key, value in variables.items()))

    def _link(self, folder: Path, pidns: int) -> None:
        (folder / "ns").mkdir(parents=True)
        (folder / "ns" / "pid").symlink_to(f"pid:[{pidns}]")

    def look(self) -> list[str]:
        """Run gpu-usage once; return the processes it writes, as ``PID on INDEX: MiB``."""
        done = self.node.run("gpu-usage", "--once", KAILAB_PROC=str(self.root))
        assert (done.code, done.out, done.err) == (0, "", "")
        found = re.findall(r"process gpu=(\S+) pid=(\d+) .* memory=(\d+)", self.node.usage.read_text())
        index = {gpu.uuid: gpu.index for gpu in GPUS}
        return [f"{pid} on {index[uuid]}: {memory}" for uuid, pid, memory in found]


def test_a_fraction_uses_its_share_and_a_container_that_declares_what_it_says(node: SimulatedNode) -> None:
    proc = Proc(node)
    proc.process(40, 0, GPU_PORTION="0.50", RUNAI_NUM_OF_GPUS="0.50", NVIDIA_VISIBLE_DEVICES=GPUS[0].uuid)
    proc.process(41, 0, GPU_PORTION="0.25")
    proc.process(42, 1, KAILAB_GPU_MEMORY_MIB="20480")
    proc.process(43, 1, 2, GPU_PORTION="0.10", KAILAB_GPU_MEMORY_MIB="1000")
    proc.process(44, 2, KAILAB_GPU_MEMORY_MIB="much", GPU_PORTION="1.00")
    assert proc.look() == [
        f"40 on 0: {(MEMORY + 1) // 2}",
        f"41 on 0: {round(MEMORY * 0.25)}",
        "42 on 1: 20480",
        "43 on 1: 1000",
        "43 on 2: 1000",
        f"44 on 2: {MEMORY}",
    ]


def test_who_only_has_a_gpu_uses_nothing(node: SimulatedNode) -> None:
    proc = Proc(node)
    proc.process(40, 0)  # a whole GPU
    proc.process(41, 0, NVIDIA_VISIBLE_DEVICES="all")  # a reservation pod, the device plugin
    proc.process(42, 0, KAILAB_GPU_MEMORY_MIB="0", GPU_PORTION="0.50")
    proc.process(43, GPU_PORTION="0.50")  # no device node: no GPU
    proc.process(44, 0, pidns=OWN_PIDNS, GPU_PORTION="0.50")  # the node's own
    proc.process(45, privileged=True, GPU_PORTION="0.50")
    proc.process(46, 0, GPU_PORTION="2")
    proc.process(47, 0, GPU_PORTION="-0.5")
    assert proc.look() == []


def test_one_process_stands_for_a_container(node: SimulatedNode) -> None:
    """kubectl exec gives a process the same environment, and process ids are reused at times."""
    proc = Proc(node)
    proc.process(300, 0, container="a", pidns=OTHER_PIDNS, started=10, GPU_PORTION="0.50")
    proc.process(20, 0, container="a", pidns=OTHER_PIDNS, started=900, inner=9, GPU_PORTION="0.50")
    proc.process(301, 0, container="b", pidns=OTHER_PIDNS, inner=17, GPU_PORTION="0.50")  # shareProcessNamespace
    assert [line.split()[0] for line in proc.look()] == ["300", "301"]


def test_memory_and_processes_follow_what_runs(node: SimulatedNode) -> None:
    proc = Proc(node)
    proc.process(40, 0, GPU_PORTION="0.50")
    proc.process(41, 0, KAILAB_GPU_MEMORY_MIB="100")
    proc.look()
    share = (MEMORY + 1) // 2
    question = f"{ASK}print(json.dumps([[used(h), runs(h)] for h in hs]))"
    assert node.ask(question) == [[share + 100, [[40, share, 0xFFFFFFFF], [41, 100, 0xFFFFFFFF]]], [0, []], [0, []]]
    shutil.rmtree(proc.root / "40")
    proc.look()
    assert node.ask(question)[0] == [100, [[41, 100, 0xFFFFFFFF]]]


def test_a_container_sees_its_own_processes_by_its_numbers_and_all_of_the_memory(node: SimulatedNode) -> None:
    gpu = GPUS[0].uuid
    node.use(f"{gpu} 4000 {OWN_PIDNS} 1 100", f"{gpu} 4001 {OTHER_PIDNS} 1 200", node_pidns=OTHER_PIDNS + 1)
    assert node.ask(f"{ASK}print(json.dumps([used(hs[0]), runs(hs[0])]))") == [300, [[1, 100, 0xFFFFFFFF]]]


def test_more_than_there_is_cannot_be_used(node: SimulatedNode) -> None:
    node.use(f"{GPUS[1].uuid} 5 6 1 {MEMORY}", f"{GPUS[1].uuid} 6 7 1 5000")
    seen = node.ask(f"{ASK}m = nvmlDeviceGetMemoryInfo(hs[1])\nprint(json.dumps([m.used >> 20, m.free]))")
    assert seen == [MEMORY, 0]


def test_the_lists_of_processes_keep_to_the_room_they_get(node: SimulatedNode) -> None:
    node.use(*(f"{GPUS[0].uuid} {pid} 6 1 {pid}" for pid in (5, 6, 7)))
    results = node.ask(f"""{ASK}
lib = CDLL('libnvidia-ml.so.1')
def ask(call, room, size):
    count, infos = c_uint(room), create_string_buffer(b'#' * 200, 200)
    code = call(hs[0], byref(count), infos if room else None)
    return [code, count.value, [infos.raw[i * size] for i in range(min(room, 3))], infos.raw[room * size:][:1].decode()]
v1, v3 = lib.nvmlDeviceGetComputeRunningProcesses, lib.nvmlDeviceGetComputeRunningProcesses_v3
print(json.dumps([ask(v1, 0, 16), ask(v1, 3, 16), ask(v3, 2, 24), ask(v3, 3, 24)]))
""")
    assert results == [[7, 3, [], "#"], [0, 3, [5, 6, 7], "#"], [7, 3, [5, 6], "#"], [0, 3, [5, 6, 7], "#"]]


def test_a_half_written_usage_file_leaves_the_last_whole_one_in_force(node: SimulatedNode) -> None:
    node.use(f"{GPUS[0].uuid} 5 6 1 50")
    whole = node.usage.read_text()
    broken = [whole.removesuffix("end 7\n"), whole.replace("end 7", "end 8"), whole.replace("memory=50", "memory")]
    seen = node.ask(f"""{ASK}
seen = []
for text in {[whole, *broken, ""]!r}:
    open({str(node.usage)!r}, "w").write(text)
    seen.append(used(hs[0]))
print(json.dumps(seen))
""")
    assert seen == [50, 50, 50, 50, 0]


def test_the_usage_file_keeps_its_inode_and_shrinks(node: SimulatedNode) -> None:
    """Containers have the file itself mounted: if it were replaced, they would keep the old one."""
    proc = Proc(node)
    proc.process(40, 0, 1, 2, GPU_PORTION="0.50")
    proc.look()
    before = node.usage.stat()
    shutil.rmtree(proc.root / "40")
    assert proc.look() == []
    after = node.usage.stat()
    assert (after.st_ino, after.st_size < before.st_size) == (before.st_ino, True)
    assert re.fullmatch(rf"usage (\d+) pidns={OWN_PIDNS}\nend \1\n", node.usage.read_text())


def test_names_of_processes_come_from_proc(node: SimulatedNode) -> None:
    results = node.ask(f"""{ASK}
import os, sys
def name(pid):
    try:
        return nvmlSystemGetProcessName(pid)
    except NVMLError as error:
        return error.value
print(json.dumps([name(os.getpid()) == sys.orig_argv[0], name(4194305)]))
""")
    assert results == [True, 6]
