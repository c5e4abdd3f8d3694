"""Known failures in the messages of real programs: each is produced on a scratch host and recognized by its text.

No cluster is needed. Failures that need one are in test_gpu_failures.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.gpu.diagnosis.symptoms import in_text, normal
from lab.tools.process import HostRunner
from tests.integration.failure_bench import LIBRARY, Bench, failure_bench
from tests.integration.gpu_failure_texts import ALL, ALSO, CASES, DOCKER, NODES, spec


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with failure_bench() as made:
        yield made


@pytest.mark.parametrize("symptom", CASES)
def test_text(bench: Bench, symptom: str) -> None:
    text = CASES[symptom](bench)
    assert {found.rule for found in in_text(text)} == {symptom} | ALSO.get(symptom, set()), text


def test_a_prepared_machine_and_a_good_container_show_nothing(bench: Bench) -> None:
    nodes = ("/dev/nvidiactl", *NODES)
    made = bench.container(ALL, spec=spec(nodes=nodes, mounts=((LIBRARY, "/usr/lib/libnvidia-ml.so.1"),)))
    # the runtime got as far as the program, which the empty image lacks
    assert 'exec: "/true"' in normal(made)
    served = bench.run_plugin("Starting to serve")
    assert "Starting to serve" in served
    assert in_text(made + served) == ()


@pytest.mark.parametrize("symptom", DOCKER)
def test_docker(engine: HostRunner, symptom: str) -> None:
    if "nvidia" in engine.run(["docker", "info", "--format", "{{json .Runtimes}}"]).out:
        pytest.skip("this machine's Docker has NVIDIA's runtime")
    image = engine.run(["docker", "import", "-"], stdin=b"\0" * 10240).out.strip()
    try:
        text = engine.run(["docker", "run", "--rm", *DOCKER[symptom], image, "/true"], check=False).err
    finally:
        engine.run(["docker", "rmi", "-f", image])
    assert [found.rule for found in in_text(text)] == [symptom], text
