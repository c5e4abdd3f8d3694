"""The lab file for a cluster that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.config import load_spec
from lab.errors import SpecError
from lab.operations.init import existing_cluster, existing_lab_file
from lab.snapshot.inventory import inventory
from tests.support.access_reviews import permit
from tests.support.builders import node
from tests.support.existing_cluster import existing_cluster as cluster_of_others
from tests.support.existing_cluster import kubeconfig
from tests.support.fake_api_server import FakeApiServer


def written(api: FakeApiServer, tmp_path: Path) -> tuple[str, Path]:
    file = tmp_path / "lab.yaml"
    file.write_text(existing_lab_file(inventory(api.cluster), Path("/home/jane/farm.yaml"), "mine"))
    return file.read_text(), file


def test_the_lab_adopts_kai_and_stays_within_a_budget(tmp_path: Path) -> None:
    text, file = written(cluster_of_others(), tmp_path)
    spec = load_spec(file, (), {})
    assert (spec.name, spec.cluster.provider, spec.cluster.context) == ("mine", "existing", "kind-kailab-demo")
    assert (spec.cluster.kubeconfig, spec.cluster.exclusive) == (Path("/home/jane/farm.yaml"), False)
    assert (spec.gpu.mode, spec.kai.manage, spec.kai.version) == ("present", "adopt", "0.16.8")
    assert spec.budget.gpus == 4
    assert [queue.name for queue in spec.queues] == ["mine-default"]
    assert max(map(len, text.splitlines())) <= 110


@pytest.mark.parametrize(
    "line",
    [
        "# Found: Kubernetes v1.34.4 at https://127.0.0.1:6443, 3 nodes, 3 ready; pod network: kindnet",
        "# Found: StorageClasses: standard, slow (default: standard)",
        "# Found: 8 nvidia.com/gpu, 4 nvidia.com/gpu.shared, 7 nvidia.com/mig-1g.5gb",
        "# Found: 1 node with NVIDIA-H100, 81559 MiB each",
        "# Found: GPU Operator v25.3.0 is ready",
        "# Found: 8 nvidia.com/gpu; 3 pods of others in 2 namespaces",
        "# Found: org, team-a, team-b. The lab's are below a queue mine of its own, with budget.gpus as limit",
        "# Found: vClusters vc-a/a 0.36.1",
    ],
)
def test_comments_say_what_the_cluster_has(line: str, tmp_path: Path) -> None:
    assert line in written(cluster_of_others(), tmp_path)[0].splitlines()


def test_keys_that_have_no_effect_are_left_out(tmp_path: Path) -> None:
    text, _ = written(cluster_of_others(), tmp_path)
    assert not re.search(r"^ +#?(workers|perNode|engine):", text, re.M)


def test_a_cluster_without_gpus_and_kai(tmp_path: Path) -> None:
    api = FakeApiServer(node("a"))
    permit(api, lambda _: True)
    text, file = written(api, tmp_path)
    spec = load_spec(file, (), {})
    assert (spec.gpu.mode, spec.kai.manage, spec.budget.gpus) == ("none", "install", None)
    assert "# Found: no KAI" in text.splitlines()


def test_a_small_cluster_gives_what_it_has(tmp_path: Path) -> None:
    api = FakeApiServer(node("a", gpus=2))
    permit(api, lambda _: True)
    assert load_spec(written(api, tmp_path)[1], (), {}).budget.gpus == 2


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    api = cluster_of_others()
    api.react("list", "Deployment", lambda _: (403, "no"))
    text, file = written(api, tmp_path)
    assert "# Found: unknown: jane may not list Deployments" in text.splitlines()
    assert load_spec(file, (), {}).kai.manage == "adopt"  # its queues are there


def test_the_file_knows_an_adopted_kai_without_gpu_sharing(tmp_path: Path) -> None:
    api = cluster_of_others()
    assert load_spec(written(api, tmp_path)[1], (), {}).kai.gpu_sharing
    api.change("Config", "kai-config", spec={"admission": {"gpuSharing": False}})
    assert not load_spec(written(api, tmp_path)[1], (), {}).kai.gpu_sharing


def test_names_of_labs(tmp_path: Path) -> None:
    found, file = inventory(cluster_of_others().cluster), tmp_path / "lab.yaml"
    file.write_text(existing_lab_file(found, Path("/farm.yaml"), "a" * 40))
    assert len(load_spec(file, (), {}).queues[0].name) == 40
    with pytest.raises(SpecError) as caught:
        existing_lab_file(found, Path("/farm.yaml"), "Farm")
    assert "name: must be 1 to 40 of a-z" in str(caught.value.evidence)


def test_contexts_and_files_that_do_not_exist(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config", "farm", "edge")
    cluster = existing_cluster(file, "farm")
    assert (cluster.kubeconfig, cluster.context) == (file, "farm")
    with pytest.raises(SpecError, match="no context 'far'") as caught:
        existing_cluster(file, "far")
    assert caught.value.evidence == ("contexts: edge, farm",)
    with pytest.raises(SpecError, match="no kubeconfig"):
        existing_cluster(tmp_path / "other", "farm")
