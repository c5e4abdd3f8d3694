"""Makes kailab's own images by the recipes of the lab, and pushes them to the registry of a release.

    python -m scripts.release.images push REGISTRY [KUBERNETES ...]     on one machine of each architecture
    python -m scripts.release.images join REGISTRY ARCH[,ARCH] [KUBERNETES ...]

``push`` builds the probe and, for each version of Kubernetes, a node image with NVIDIA's container toolkit, and pushes
them with the architecture in the tag. ``join`` makes an image index of all architectures, and writes
lab/supply/published.json with the registry and the digests, which the wheel then carries. REGISTRY has a path, such as
``ghcr.io/OWNER/kailab``. The node image is built with debootstrap, which needs root.
"""

from __future__ import annotations

import json
import sys

from lab.config import LabSpec
from lab.supply import Supply
from lab.supply.catalogue import OWN_REGISTRY, arch, kind_node, ready_node
from lab.supply.published import FILE
from lab.supply.registry import is_local
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from lab.workloads.pods import IMAGE
from scripts.pins import image_digest

NODE_ENTRY = ('ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]', "CMD []")
CONTAINER = "kailab-release-node"


def published_name(reference: str, registry: str) -> str:
    """The name of one of kailab's images in a registry."""
    return f"{registry}/{reference.removeprefix(f'{OWN_REGISTRY}/')}"


def supply_for(kubernetes: str, engine: ContainerEngine, runner: HostRunner) -> Supply:
    """A supply that takes nothing from registries but NVIDIA's packages, so that every image is made by its recipe."""
    spec = LabSpec.model_validate({"cluster": {"kubernetes": kubernetes}, "supply": {"sources": ["present", "build"]}})
    return Supply(spec, runner, engine)


def push(registry: str, versions: list[str]) -> list[str]:
    """Build and push the images for this machine's architecture, and return their names."""
    runner = HostRunner()
    engine = ContainerEngine(runner)
    names = []
    supply = supply_for(versions[0] if versions else LabSpec().cluster.kubernetes, engine, runner)
    engine.call("load", "-q", "-i", str(supply.image(IMAGE)))
    names.append(f"{published_name(IMAGE, registry)}-{arch()}")
    engine.call("tag", IMAGE, names[-1])
    for version in versions:
        supply = supply_for(version, engine, runner)
        engine.call("load", "-q", "-i", str(supply.image(kind_node(version).name)))
        names.append(f"{published_name(ready_node(version).name, registry)}-{arch()}")
        add_toolkit(kind_node(version).name, names[-1], supply, engine)
    for name in names:
        engine.call("push", "-q", name)
    return names


def add_toolkit(base: str, name: str, supply: Supply, engine: ContainerEngine) -> None:
    """Make the image ``name``: a node image with the programs of NVIDIA's container toolkit."""
    engine.remove(CONTAINER)
    engine.call("create", "--name", CONTAINER, "--label", "kailab=release", base)
    try:
        for program in sorted(supply.binary("container-toolkit").iterdir()):
            engine.copy_in(CONTAINER, program, f"/usr/bin/{program.name}")
        changes = [word for change in (*NODE_ENTRY, "LABEL kailab=") for word in ("--change", change)]
        engine.call("commit", *changes, CONTAINER, name)
    finally:
        engine.remove(CONTAINER)


def join(registry: str, architectures: list[str], versions: list[str]) -> dict[str, str]:
    """Make the index of each image and return its digest by the name that labs use."""
    engine = ContainerEngine(HostRunner())
    digests = {}
    for reference in (IMAGE, *(ready_node(version).name for version in versions)):
        name = published_name(reference, registry)
        insecure = ["--insecure"] if is_local(registry) else []
        engine.call("manifest", "rm", name, check=False)  # of an earlier attempt, on this machine only
        engine.call("manifest", "create", *insecure, name, *(f"{name}-{one}" for one in architectures))
        engine.call("manifest", "push", "--purge", *insecure, name)
        digests[reference] = image_digest(name)
    return digests


def main(words: list[str]) -> int:
    """Run ``push`` or ``join`` and return the exit code."""
    match words:
        case ["push", registry, *versions]:
            print("\n".join(push(registry, versions)))
        case ["join", registry, architectures, *versions]:
            pins = join(registry, architectures.split(","), versions)
            FILE.write_text(json.dumps({"registry": registry, "pins": pins}, indent=1) + "\n")
            print(f"{FILE}\n{FILE.read_text()}", end="")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
