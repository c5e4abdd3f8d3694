"""Health of simulated GPUs, queried with pynvml: XID errors as NVML events, and GPUs that fell off the bus."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.integration.simulated_node import GPUS, SimulatedNode, sick, simulated_node

WATCH = """
import time
nvmlInit()
hs = [nvmlDeviceGetHandleByIndex(i) for i in range(2)]
types, events = nvmlDeviceGetSupportedEventTypes(hs[0]), nvmlEventSetCreate()
for h in hs:
    nvmlDeviceRegisterEvents(h, types, events)
def wait(ms):
    try:
        e = nvmlEventSetWait_v2(events, ms)
        return [nvmlDeviceGetUUID(e.device), e.eventType, e.eventData, e.gpuInstanceId]
    except NVMLError as error:
        return type(error).__name__
def code(call, *args):
    try:
        call(*args)
        return 0
    except NVMLError as error:
        return error.value
"""


@pytest.fixture
def node(tmp_path: Path) -> SimulatedNode:
    made = simulated_node(tmp_path)
    made.configure(*GPUS[:2])
    made.give(0, 1)
    return made


def when_asked(node: SimulatedNode, *gpus: object) -> threading.Thread:
    """Writes a config as soon as the querying process reports that it is ready."""

    def change() -> None:
        deadline = time.monotonic() + 30
        while not (node.root / "ready").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        node.configure(*gpus)  # type: ignore[arg-type]

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    return thread


def test_an_xid_written_into_the_config_is_one_event(node: SimulatedNode) -> None:
    node.configure(sick(GPUS[0], 31), GPUS[1])
    thread = when_asked(node, sick(GPUS[0], 31), sick(GPUS[1], 79))
    early, first, quick, again = node.ask(f"""{WATCH}
early = wait(0)
began = time.monotonic()
open({str(node.root / "ready")!r}, "w").close()
first = wait(20000)
print(json.dumps([early, first, time.monotonic() - began < 15, wait(250)]))
nvmlEventSetFree(events)
""")
    thread.join()
    assert early == "NVMLError_Timeout", "an error from before the registration was reported"
    assert first == [GPUS[1].uuid, 8, 79, 0xFFFFFFFF]
    assert quick
    assert again == "NVMLError_Timeout", "one error was reported twice"


def test_the_same_error_after_a_heal_is_a_new_event(node: SimulatedNode) -> None:
    texts = []
    for gpu in (sick(GPUS[0], 48), GPUS[0], sick(GPUS[0], 48)):
        node.configure(gpu, GPUS[1])
        texts.append(node.conf.read_text())
    node.configure(*GPUS[:2])
    seen = node.ask(f"""{WATCH}
seen = []
for text in {texts!r}:
    open({str(node.conf)!r}, "w").write(text)
    seen.append(wait(150))
print(json.dumps(seen))
""")
    event = [GPUS[0].uuid, 8, 48, 0xFFFFFFFF]
    assert seen == [event, "NVMLError_Timeout", event]


def test_an_event_tells_which_gpu_was_lost(node: SimulatedNode) -> None:
    """The device plugin reads the UUID of the event's device; without one it withdraws all GPUs (v0.18.0)."""
    thread = when_asked(node, sick(GPUS[0], 79, lost=True), GPUS[1])
    seen = node.ask(f"""{WATCH}
before = nvmlDeviceGetPciInfo(hs[0]).busId
open({str(node.root / "ready")!r}, "w").close()
event = wait(20000)
lib = CDLL('libnvidia-ml.so.1')
print(json.dumps(dict(event=event, count=nvmlDeviceGetCount(), bus=nvmlDeviceGetPciInfo(hs[0]).busId == before,
    minor=nvmlDeviceGetMinorNumber(hs[0]), other=nvmlDeviceGetMemoryInfo(hs[1]).total >> 20,
    refused=[code(nvmlDeviceGetMemoryInfo, hs[0]), code(nvmlDeviceGetName, hs[0]),
        code(nvmlDeviceGetComputeRunningProcesses, hs[0]), code(nvmlDeviceGetHandleByIndex, 0),
        code(nvmlDeviceGetHandleByUUID, '{GPUS[0].uuid}'), code(nvmlDeviceRegisterEvents, hs[0], types, events)])))
""")
    thread.join()
    assert seen == {
        "event": [GPUS[0].uuid, 8, 79, 0xFFFFFFFF],
        "count": 2,
        "bus": True,
        "minor": 0,
        "other": GPUS[1].memory,
        "refused": [15] * 6,
    }


@pytest.mark.parametrize("words", ["lost=1", "health=lost", "xid=79 lost=1"])
def test_every_spelling_of_lost_is_read_and_a_healed_gpu_answers_again(node: SimulatedNode, words: str) -> None:
    text = node.conf.read_text()
    ill = text.replace("gpu index=0", f"gpu {words} index=0")
    seen = node.ask(f"""{WATCH}
seen = []
for text in {[ill, text]!r}:
    open({str(node.conf)!r}, "w").write(text)
    seen.append([code(nvmlDeviceGetMemoryInfo, hs[0]), code(nvmlDeviceGetHandleByIndex, 0)])
print(json.dumps(seen))
""")
    assert seen == [[15, 15], [0, 0]]
