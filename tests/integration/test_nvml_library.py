"""The simulated libnvidia-ml.so.1, compiled for real and queried by NVIDIA's own pynvml and by plain C calls.

Each query is a Python program in its own process, because a process can load the library only once.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.gpu.simulated.devices import DRIVER_VERSION
from tests.integration.simulated_node import GPUS, SimulatedNode, simulated_node


@pytest.fixture
def node(tmp_path: Path) -> SimulatedNode:
    return simulated_node(tmp_path)


def test_every_fact_of_every_gpu(node: SimulatedNode) -> None:
    node.give(0, 1, 2)
    facts = node.ask("""
nvmlInit()
def facts(i):
    h = nvmlDeviceGetHandleByIndex(i)
    m, m2, p = nvmlDeviceGetMemoryInfo(h), nvmlDeviceGetMemoryInfo(h, nvmlMemory_v2), nvmlDeviceGetPciInfo(h)
    return dict(name=nvmlDeviceGetName(h), uuid=nvmlDeviceGetUUID(h), minor=nvmlDeviceGetMinorNumber(h),
        index=nvmlDeviceGetIndex(h), memory=[m.total, m.used, m.free],
        memory2=[m2.total, m2.reserved, m2.used, m2.free],
        pci=[p.busId, p.busIdLegacy, p.domain, p.bus, p.device, p.pciDeviceId],
        compute=nvmlDeviceGetCudaComputeCapability(h), architecture=nvmlDeviceGetArchitecture(h),
        brand=nvmlDeviceGetBrand(h), processes=len(nvmlDeviceGetComputeRunningProcesses(h)))
print(json.dumps(dict(driver=nvmlSystemGetDriverVersion(), nvml=nvmlSystemGetNVMLVersion(),
    cuda=nvmlSystemGetCudaDriverVersion_v2(), gpus=[facts(i) for i in range(nvmlDeviceGetCount())])))
""")
    assert facts["driver"] == DRIVER_VERSION
    assert facts["nvml"] == f"13.{DRIVER_VERSION}"
    assert facts["cuda"] == 13000
    total = 81559 * 2**20
    assert facts["gpus"] == [
        {
            "name": "NVIDIA H100 80GB HBM3",
            "uuid": gpu.uuid,
            "minor": gpu.index,
            "index": gpu.index,
            "memory": [total, 0, total],
            "memory2": [total, 0, 0, total],
            "pci": [f"000000FF:0{bus}:00.0", f"00FF:0{bus}:00.0", 0xFF, bus, 0, 0x233010DE],
            "compute": [9, 0],
            "architecture": 9,
            "brand": 14,
            "processes": 0,
        }
        for bus, gpu in enumerate(GPUS[:3], 1)
    ]


def test_a_container_sees_the_gpus_whose_device_nodes_it_has(node: SimulatedNode) -> None:
    node.give(0, 2)
    seen = node.ask(f"""
nvmlInit()
hs = [nvmlDeviceGetHandleByIndex(i) for i in range(nvmlDeviceGetCount())]
def refused(call, *args):
    try:
        call(*args)
    except NVMLError as error:
        return error.value
print(json.dumps(dict(uuids=[nvmlDeviceGetUUID(h) for h in hs],
    minors=[nvmlDeviceGetMinorNumber(h) for h in hs], indexes=[nvmlDeviceGetIndex(h) for h in hs],
    third=refused(nvmlDeviceGetHandleByIndex, 2),
    hidden=refused(nvmlDeviceGetHandleByUUID, '{GPUS[1].uuid}'),
    by_uuid=nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID('{GPUS[2].uuid}')),
    by_bus=nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId(b'00ff:03:00.0')))))
""")
    assert seen == {
        "uuids": [GPUS[0].uuid, GPUS[2].uuid],
        "minors": [0, 2],
        "indexes": [0, 1],
        "third": 2,
        "hidden": 6,
        "by_uuid": 1,
        "by_bus": 1,
    }


@pytest.mark.parametrize("break_it", ["no device node", "no config"])
def test_without_a_visible_gpu_there_is_no_driver(node: SimulatedNode, break_it: str) -> None:
    if break_it == "no config":
        node.give(0)
        node.conf.unlink()
    answers = node.ask("""
try:
    nvmlInit()
    print('"started"')
except NVMLError as error:
    print(json.dumps([type(error).__name__, str(error)]))
""")
    assert answers == ["NVMLError_DriverNotLoaded", "Driver Not Loaded"]


def test_calls_before_init_and_after_shutdown_are_refused(node: SimulatedNode) -> None:
    node.give(0)
    codes = node.ask("""
lib, count, twice = CDLL('libnvidia-ml.so.1'), c_uint(), []
codes = [lib.nvmlDeviceGetCount_v2(byref(count)), lib.nvmlShutdown()]
codes += [lib.nvmlInit_v2(), lib.nvmlInit(), lib.nvmlShutdown(), lib.nvmlDeviceGetCount(byref(count))]
print(json.dumps(codes + [lib.nvmlShutdown(), lib.nvmlDeviceGetCount(byref(count))]))
""")
    assert codes == [1, 1, 0, 0, 0, 0, 0, 1]


def test_wrong_arguments_are_refused_and_write_nothing(node: SimulatedNode) -> None:
    node.give(0)
    answers = node.ask("""
lib, handle = CDLL('libnvidia-ml.so.1'), c_void_p()
assert lib.nvmlInit_v2() == 0 and lib.nvmlDeviceGetHandleByIndex_v2(0, byref(handle)) == 0
short, memory = create_string_buffer(b'x' * 8, 8), c_nvmlMemory_v2_t()
old, uuid = create_string_buffer(b'#' * 128, 128), c_void_p(1234)
print(json.dumps(dict(short=lib.nvmlDeviceGetUUID(handle, short, 8), kept=short.raw.decode(),
    version=lib.nvmlDeviceGetMemoryInfo_v2(handle, byref(memory)),
    null=lib.nvmlDeviceGetName(handle, None, 9), stranger=lib.nvmlDeviceGetName(uuid, short, 8),
    nobody=lib.nvmlDeviceGetName(None, short, 8),
    v2=[lib.nvmlDeviceGetPciInfo_v2(handle, old), old.raw[36:40].decode()],
    v1=[lib.nvmlDeviceGetPciInfo(handle, old), old.raw[:13].decode()])))
""")
    assert answers == {
        "short": 7,
        "kept": "x" * 8,
        "version": 25,
        "null": 2,
        "stranger": 2,
        "nobody": 2,
        "v2": [0, "####"],
        "v1": [0, "00FF:01:00.0\0"],
    }


def test_what_is_not_simulated_says_so(node: SimulatedNode) -> None:
    """The library never invents a value: a model without a known power limit has none."""
    node.configure(replace(GPUS[0], model=replace(GPUS[0].model, watts=0)))
    node.give(0)
    answers = node.ask("""
nvmlInit()
h = nvmlDeviceGetHandleByIndex(0)
def code(call, *args):
    try:
        return call(*args)
    except NVMLError as error:
        return error.value
print(json.dumps([code(*call) for call in (
    (nvmlDeviceGetMigMode, h), (nvmlDeviceGetTemperature, h, 0), (nvmlDeviceGetPowerUsage, h),
    (nvmlDeviceGetFanSpeed, h), (nvmlDeviceGetClockInfo, h, 0), (nvmlDeviceGetPerformanceState, h),
    (nvmlDeviceGetUtilizationRates, h), (nvmlDeviceGetEnforcedPowerLimit, h), (nvmlDeviceGetNvLinkState, h, 0),
    (nvmlDeviceGetSerial, h), (nvmlDeviceGetEccMode, h), (nvmlDeviceGetPersistenceMode, h))]))
""")
    assert answers == [3] * 12


def test_what_follows_from_the_config_or_from_being_simulated_is_answered(node: SimulatedNode) -> None:
    node.give(0)
    answers = node.ask(f"""
nvmlInit()
h = nvmlDeviceGetHandleByIndex(0)
fields = nvmlDeviceGetFieldValues(h, [NVML_FI_DEV_MEMORY_TEMP, NVML_FI_DEV_POWER_INSTANT])
wanted = c_nvmlUUID_t()
wanted.version, wanted.type = nvmlUUID_v1, 2
memmove(byref(wanted.value), bytes.fromhex('{GPUS[0].uuid[4:].replace("-", "")}'), 16)
by_bytes, lib = c_void_p(), CDLL('libnvidia-ml.so.1')
found = lib.nvmlDeviceGetHandleByUUIDV(byref(wanted), byref(by_bytes))
p = nvmlDeviceGetPciInfo(h)
print(json.dumps(dict(limits=[nvmlDeviceGetEnforcedPowerLimit(h), nvmlDeviceGetPowerManagementDefaultLimit(h)],
    pci=[hex(p.pciDeviceId), hex(p.pciSubSystemId)], mig=[nvmlDeviceIsMigDeviceHandle(h).value,
    nvmlDeviceGetMaxMigDeviceCount(h)], compute=nvmlDeviceGetComputeMode(h), display=nvmlDeviceGetDisplayActive(h),
    units=nvmlUnitGetCount(), fields=[f.nvmlReturn for f in fields],
    same=[found, by_bytes.value == cast(h, c_void_p).value])))
""")
    model = GPUS[0].model
    assert answers == {
        "limits": [model.watts * 1000] * 2,
        "pci": [hex(model.pci_id), hex(model.pci_subsystem_id)],
        "mig": [0, 0],
        "compute": 0,
        "display": 0,
        "units": 0,
        "fields": [3, 3],
        "same": [0, True],
    }


def test_a_config_written_in_place_takes_effect_and_keeps_handles(node: SimulatedNode) -> None:
    node.give(0)
    seen = node.ask(f"""
from pathlib import Path
conf = Path({str(node.conf)!r})
def ask():
    m = nvmlDeviceGetMemoryInfo(h)
    try:
        util = nvmlDeviceGetUtilizationRates(h).gpu
    except NVMLError as error:
        util = type(error).__name__
    return [m.total >> 20, m.used >> 20, m.free >> 20, util]
nvmlInit()
h = nvmlDeviceGetHandleByIndex(0)
seen, text = [ask()], conf.read_text()
conf.write_text(text.replace("memory=81559", "memory=200 used=50 util=77"))
seen.append(ask())
conf.write_text(text.replace("memory=81559", "memory=300").removesuffix("end\\n"))  # being written
seen.append(ask())
for broken in ("nonsense", "end\\n"):
    conf.write_text(broken)
    seen.append(ask())
conf.write_text(text.replace("memory=81559", "memory=400"))
seen.append(ask())
conf.write_text(text.replace("{GPUS[0].uuid}", "GPU-other"))
try:
    seen.append(ask())
except NVMLError as error:
    seen.append(type(error).__name__)
print(json.dumps(seen))
""")
    used = [200, 50, 150, 77]
    assert seen == [
        [81559, 0, 81559, "NVMLError_NotSupported"],
        used,
        used,
        used,
        used,
        [400, 0, 400, "NVMLError_NotSupported"],
        "NVMLError_GpuIsLost",
    ]


def test_many_threads_ask_at_once(node: SimulatedNode) -> None:
    node.give(0, 1, 2)
    assert node.ask("""
from concurrent.futures import ThreadPoolExecutor
nvmlInit()
def ask(n):
    h = nvmlDeviceGetHandleByIndex(n % 3)
    return nvmlDeviceGetMinorNumber(h) == n % 3 and nvmlDeviceGetCount() == 3
with ThreadPoolExecutor(8) as pool:
    print(json.dumps(all(pool.map(ask, range(400)))))
""")
