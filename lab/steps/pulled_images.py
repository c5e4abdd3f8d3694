"""From where the nodes of an existing cluster get images, asked of the nodes and of registries before a change."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from lab.config import LabSpec
from lab.kube import Cluster
from lab.supply.pull_secrets import registry_logins
from lab.supply.registry import has_manifest

NODES, REGISTRY, MISSING, UNKNOWN = "nodes", "registry", "missing", "unknown"
"""On a node; in its registry; in neither; on no node, and the registry does not say."""

_WORDS = {True: REGISTRY, False: MISSING, None: UNKNOWN}


def pulled_images(cluster: Cluster, spec: LabSpec, wanted: Iterable[str]) -> dict[str, str]:
    """Image → where the nodes get it from. A kubelet reports 50 images at most, so some may be hidden.

    Registries are asked with the logins of the lab file's pull secrets. Raises ApiFailed, SpecError.
    """
    lists = [node.get("status", {}).get("images") or [] for node in cluster.list("Node")]
    there = {name for images in lists for image in images for name in image.get("names") or []}
    images = tuple(dict.fromkeys(wanted))
    asked = [image for image in images if image not in there]
    logins = registry_logins(cluster, spec) if asked else {}
    with ThreadPoolExecutor(8, thread_name_prefix="images") as pool:
        answers = dict(zip(asked, pool.map(lambda image: has_manifest(image, logins), asked), strict=True))
    return {image: _WORDS[answers[image]] if image in answers else NODES for image in images}
