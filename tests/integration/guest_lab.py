"""A lab in a stranger's cluster: its lab file, its user, and the command in a state directory of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import yaml

from lab.watch.manifests import LOCAL_IMAGE
from tests.integration.conftest import Cli
from tests.integration.strangers_cluster import MIRROR, READER, SECRET, Stranger
from tests.support.cluster_objects import changes, objects_in
from tests.support.killed import Killable

GUEST = "it-guest"
"""Name of the lab."""

Json = dict[str, Any]


def simulated(stranger: Stranger, per_node: int, *, exclusive: bool = False) -> Json:
    """Of a lab file with simulated GPUs on each worker, all within its budget."""
    at = {"provider": "existing", "kubeconfig": str(stranger.kubeconfig), "context": stranger.context}
    gpu = {"mode": "simulated", "nodes": stranger.workers, "perNode": per_node, "model": "A100-40"}
    return {
        "cluster": {**at, "exclusive": exclusive},
        "gpu": {**gpu, "image": LOCAL_IMAGE},
        "budget": {"gpus": per_node * len(gpu["nodes"])},
        "supply": {"mirrors": {"registry.kailab.dev": MIRROR}, "pullSecrets": [SECRET]},
    }


def gpus_of(stranger: Stranger) -> dict[str, list[Any]]:
    """Node → labels and resource names in its status."""
    nodes = {node["metadata"]["name"]: node for node in stranger.cluster.list("Node")}
    return {
        name: [node["metadata"]["labels"], *(sorted(node["status"][key]) for key in ("capacity", "allocatable"))]
        for name, node in nodes.items()
    }


@contextmanager
def left_as_found(cli: Cli, stranger: Stranger) -> Iterator[None]:
    """Remove the lab at the end; the cluster must then be as it was, node status included."""
    before, nodes = objects_in(stranger.cluster), gpus_of(stranger)
    yield
    cli("down", "--name", GUEST, code=None)
    assert changes(before, objects_in(stranger.cluster)) == []
    assert gpus_of(stranger) == nodes


class Guest:
    """A lab file for the stranger's cluster, and the command in a state directory of its own."""

    def __init__(self, cli: Cli, stranger: Stranger) -> None:
        self.cli, self.stranger = cli, stranger
        self.killable = Killable(cli.env, cli.root)
        self.file = cli.root / "lab.yaml"
        self.write()

    def write(self, name: str = GUEST, **sections: object) -> None:
        lab: Json = {
            "name": name,
            "cluster": {
                "provider": "existing",
                "kubeconfig": str(self.stranger.kubeconfig),
                "context": self.stranger.context,
            },
            "kai": {"manage": "adopt"},
            "budget": {"gpus": 2},
            "queues": [{"name": f"{name}-team"}, {"name": f"{name}-a", "parent": f"{name}-team"}],
            **sections,
        }
        self.file.write_text(yaml.safe_dump(lab))

    @contextmanager
    def with_the_role(self) -> Iterator[Path]:
        """The lab is of a user who may read everything, and has what ``kailab plan --role`` prints for this lab file.

        Yields that user's kubeconfig. Namespaces that are printed are the lab's, and go with it.
        """
        lab, file = yaml.safe_load(self.file.read_text()), self.stranger.user(self.cli.root)
        lab["cluster"]["kubeconfig"] = str(file)
        self.file.write_text(yaml.safe_dump(lab))
        cluster, docs = self.stranger.cluster, list(READER)
        try:
            cluster.apply(docs)
            docs += yaml.safe_load_all(self.cli("plan", "--role", "-f", str(self.file)).out)
            cluster.apply(docs)
            yield file
        finally:
            for doc in docs:
                if doc["kind"] != "Namespace":
                    cluster.delete(doc["kind"], doc["metadata"]["name"], doc["metadata"].get("namespace"))

    def lab(self, *words: str, code: int | None = 0) -> Json:
        done = self.cli(*words, *(["-f", str(self.file)] if words[0] in ("up", "plan", "status") else []), code=code)
        return done.json()

    def up(self, *words: str, code: int = 0) -> Json:
        return self.lab("up", "--yes", "--json", *words, code=code)

    def e2e(self, expression: str) -> tuple[set[str], list[str]]:
        """``kailab e2e -k``: the names of the tests that passed, and the reasons of those skipped."""
        artifacts = self.cli.root / "artifacts"
        self.cli.env = {key: value for key, value in self.cli.env.items() if not key.startswith("PYTEST_XDIST")}
        self.cli.env["KAILAB_ARTIFACTS"] = str(artifacts)
        done = self.cli("e2e", "--name", GUEST, "--require", "kai,gpus", "-k", expression, code=None, timeout=2000)
        assert done.code == 0, done.out[-6000:]
        cases = list(ET.parse(artifacts / "junit.xml").iter("testcase"))
        passed = {re.split(r"[\[@]", str(case.get("name")))[0] for case in cases if not case.findall("skipped")}
        return passed, [str(skip.get("message")) for case in cases for skip in case.findall("skipped")]

    def refused(self, code: int, *words: str) -> str:
        """``kailab up`` ends with this code; returns the error as text."""
        return json.dumps(self.up(*words, code=code))

    @property
    def at(self) -> tuple[str, str, str, str]:
        """Options that name the cluster."""
        return "--kubeconfig", str(self.stranger.kubeconfig), "--context", self.stranger.context

    def down(self, name: str = GUEST) -> None:
        assert self.lab("down", "--name", name, "--json")["left"] == []
