"""Known failures in the words of the programs that fail: each is produced on a scratch host, and named from its text.

No cluster is needed. What only a cluster shows is in test_gpu_failures.py.
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
    # it got as far as the program, which an empty image does not have
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
