"""The nvidia-smi of simulated GPUs: the layout of driver 580, and its error messages."""

from __future__ import annotations

import re
import subprocess  # noqa: TID251 - a process to be listed, which runs while nvidia-smi does
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gpu.simulated.devices import DRIVER_VERSION
from lab.tools.process import HostRunner
from tests.integration.simulated_node import GPUS, SimulatedNode, sick, simulated_node

HEAD = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.65.06              Driver Version: 580.65.06      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
"""
GPU = """\
|{index:4}  NVIDIA H100 80GB HBM3         N/A  |   000000FF:{bus}:00.0 Off |                  N/A |
| N/A   N/A  N/A             N/A  /  {watts}W | {used:>10} /  81559MiB |     N/A      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""
PROCESSES = """
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
"""
NONE = """\
|  No running processes found                                                             |
"""
END = """\
+-----------------------------------------------------------------------------------------+
"""
LOST = (
    "Unable to determine the device handle for GPU1: 00FF:02:00.0: "
    "GPU is lost.  Reboot the system to recover this GPU\n"
)


@pytest.fixture
def node(tmp_path: Path) -> SimulatedNode:
    return simulated_node(tmp_path)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a long name."""
    process = subprocess.Popen(["bash", "-c", "exec -a /opt/conda/envs/a-rather-long-one/bin/python3 sleep 60"])
    HostRunner().run(["sh", "-c", f"until grep -q ^/opt/conda /proc/{process.pid}/cmdline; do :; done"], timeout=30)
    yield process
    process.kill()
    process.wait()


def rows(count: int, used: str = "0MiB") -> str:
    watts = GPUS[0].model.watts
    return "".join(GPU.format(index=i, bus=f"{i + 1:02X}", watts=watts, used=used) for i in range(count))


@pytest.mark.parametrize("count", [1, 4, 16])
def test_the_table(node: SimulatedNode, count: int) -> None:
    node.give(*range(count))
    day, _, table = node.smi().partition("\n")
    assert re.fullmatch(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}       ", day)
    assert table == HEAD + rows(count) + PROCESSES + NONE + END
    assert {len(line) for line in table.splitlines()} == {0, 91}


def test_the_table_lists_processes(node: SimulatedNode, sleeper: subprocess.Popen[bytes]) -> None:
    node.give(0)
    gpu = GPUS[0].uuid
    node.use(f"{gpu} {sleeper.pid} 1 1 20480", f"{gpu} 4194305 1 1 1")
    table = node.smi().partition("\n")[2]
    lines = [
        f"|    0   N/A  N/A {sleeper.pid:>15}      C   ...a-rather-long-one/bin/python3      20480MiB |",
        f"|    0   N/A  N/A {'4194305':>15}      C   {'[Not Found]':32}          1MiB |",
    ]
    assert table == HEAD + rows(1, "20481MiB") + PROCESSES + "\n".join(lines) + "\n" + END


def test_a_long_name_of_a_gpu_is_cut_and_other_memory_is_aligned(node: SimulatedNode) -> None:
    text = node.conf.read_text().replace(
        "name=NVIDIA H100 80GB HBM3", "util=7 name=NVIDIA RTX PRO 6000 Blackwell Server"
    )
    node.conf.write_text(text.replace("memory=81559", "memory=183359"))
    node.give(0)
    table = node.smi()
    assert "|   0  NVIDIA RTX PRO 6000 Blac...   N/A  |   000000FF:01:00.0 Off |" in table
    assert " |       0MiB / 183359MiB |      7%      Default |" in table


def test_without_a_gpu_there_is_no_driver(node: SimulatedNode) -> None:
    assert node.smi(code=9) == (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        "Make sure that the latest NVIDIA driver is installed and running.\n\n"
    )


def test_without_the_library(node: SimulatedNode, tmp_path: Path) -> None:
    alone = tmp_path / "nvidia-smi"
    alone.write_bytes((node.folder / "nvidia-smi").read_bytes())
    alone.chmod(0o755)
    done = HostRunner().run([alone], check=False, env={"LD_LIBRARY_PATH": str(tmp_path)})
    assert done.code == 12
    assert done.out.startswith("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.")


def test_a_link_to_it_finds_the_library_beside_it(node: SimulatedNode, tmp_path: Path) -> None:
    """The nodes' library is outside the loader's path."""
    node.give(0)
    (tmp_path / "nvidia-smi").symlink_to(node.folder / "nvidia-smi")
    env = {**node.env, "LD_LIBRARY_PATH": str(tmp_path)}
    assert GPUS[0].uuid in HostRunner().run([tmp_path / "nvidia-smi", "-L"], env=env).out


def test_the_list(node: SimulatedNode) -> None:
    node.give(0, 1)
    listed = "".join(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})\n" for gpu in GPUS[:2])
    assert node.smi("-L") == node.smi("--list-gpus") == listed


def test_properties_as_csv(node: SimulatedNode) -> None:
    node.give(0, 1)
    node.use(f"{GPUS[1].uuid} 1 1 1 512")
    fields = "index, gpu_name,uuid,memory.total,memory.used,utilization.gpu,power.limit,clocks.gr,mig.mode.current"
    watts = f"{GPUS[0].model.watts}.00"
    assert node.smi(f"--query-gpu={fields}", "--format=csv") == (
        "index, name, uuid, memory.total [MiB], memory.used [MiB], utilization.gpu [%], power.limit [W], "
        "clocks.current.graphics [MHz], mig.mode.current\n"
        f"0, {GPUS[0].name}, {GPUS[0].uuid}, 81559 MiB, 0 MiB, [N/A], {watts} W, [N/A], [N/A]\n"
        f"1, {GPUS[1].name}, {GPUS[1].uuid}, 81559 MiB, 512 MiB, [N/A], {watts} W, [N/A], [N/A]\n"
    )
    some = ["--query-gpu", "memory.used,compute_cap", "--format", "csv,noheader,nounits", "-i"]
    for one in ("1", GPUS[1].uuid, "00FF:02:00.0", "000000ff:02:00.0"):
        assert node.smi(*some, one) == "512, 9.0\n"
    assert node.smi(*some, "1,0") == "0, 9.0\n512, 9.0\n"
    others = "count,driver_version,pci.bus_id,pci.domain,pci.bus,pci.device_id,display_active,compute_mode"
    assert node.smi("-i", "0", f"--query-gpu={others}", "--format=csv,noheader") == (
        f"2, {DRIVER_VERSION}, 000000FF:01:00.0, 0x00FF, 0x01, 0x233010DE, Disabled, Default\n"
    )
    assert re.fullmatch(
        r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}\n",
        node.smi("-i", "0", "--query-gpu=timestamp", "--format=csv,noheader"),
    )


def test_every_listed_property_can_be_asked_for(node: SimulatedNode) -> None:
    node.give(0)
    listed = re.findall(r"^    ([a-z_.]+)(?: or ([a-z_.]+))?$", node.smi("--help"), re.MULTILINE)
    assert len(listed) > 40
    names = [name for pair in listed for name in pair if name]
    header = node.smi(f"--query-gpu={','.join(names)}", "--format=csv").splitlines()[0].split(", ")
    assert [title.partition(" [")[0] for title in header] == [a for a, b in listed for name in (a, b) if name]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--query-gpu=name", "--format=xml"], "--format=xml"),
        (["--query-gpu=name", "-format=csv"], "-format=csv"),
        (["-x"], "-x"),
        (["-i"], "-i"),
        (["-q"], "-q"),
        (["-L=1"], "-L=1"),
    ],
)
def test_an_unknown_option_is_refused_with_what_is_known(node: SimulatedNode, words: list[str], named: str) -> None:
    output = node.smi(*words, code=2)
    assert output.startswith(f"ERROR: Option {named} is not recognized. Please run 'nvidia-smi -h' for help.\n")
    assert "--query-gpu with --format=csv" in output


def test_an_impossible_query_is_refused(node: SimulatedNode) -> None:
    output = node.smi("--query-gpu=name,cuda_version", "--format=csv", code=2)
    assert output.startswith('Field "cuda_version" is not a valid field to query.')
    assert "\n    memory.used\n" in output
    assert '"--format=" switch is missing.' in node.smi("--query-gpu=name", code=2)
    node.give(0)
    assert node.smi("-i", "1", code=6) == "No devices were found\n"


def test_a_lost_gpu_is_named_and_the_others_are_shown(node: SimulatedNode) -> None:
    node.configure(GPUS[0], sick(GPUS[1], lost=True))
    node.give(0, 1)
    table = node.smi(code=15)
    assert table.startswith(LOST)
    assert table.endswith(HEAD + rows(1) + PROCESSES + NONE + END)
    assert node.smi("-L", code=15) == f"GPU 0: {GPUS[0].name} (UUID: {GPUS[0].uuid})\n{LOST}"
    query = node.smi("--query-gpu=index,memory.used", "--format=csv,noheader", code=15)
    assert query == f"0, 0 MiB\n{LOST}[GPU is lost], [GPU is lost]\n"
    assert node.smi("-L", "-i", "0") == f"GPU 0: {GPUS[0].name} (UUID: {GPUS[0].uuid})\n"


def test_a_gpu_that_an_xid_struck_is_shown_as_before(node: SimulatedNode) -> None:
    node.configure(sick(GPUS[0], 79))
    node.give(0)
    assert rows(1) in node.smi()
