"""Step ``registry-mirrors``: nodes pull images that the node image lacks from the lab file's mirrors.

containerd reads ``certs.d/<registry>/hosts.toml`` at every pull, so it needs no restart.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lab.config import LabSpec
from lab.engine.step import Effect, Observed
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.supply.registry import is_local, without_scheme

_FOLDER = "/etc/containerd/certs.d"


def mirror_steps(spec: LabSpec) -> list[RegistryMirrors]:
    """The step, if the lab file has mirrors and the nodes are the lab's."""
    return [RegistryMirrors(spec)] if spec.supply.mirrors and spec.cluster.own else []


@dataclass(frozen=True)
class RegistryMirrors(LabStep):
    """The lab file's ``supply.mirrors`` in every node."""

    spec: LabSpec
    needs: tuple[str, ...] = ("cluster",)
    id: str = "registry-mirrors"
    title: str = "Registry mirrors"

    def effects(self) -> tuple[Effect, ...]:
        pairs = ", ".join(f"{host} → {mirror}" for host, mirror in self.spec.supply.mirrors.items())
        return (Effect("node", f"containerd pulls from mirrors: {pairs}"),)

    def observe(self, ctx: LabContext) -> Observed:
        for node in ctx.kubernetes_nodes():
            wanted = mirror_files(self.spec.supply.mirrors, node.gateway)
            if ctx.engine.exec(node.name, ["cat", *wanted], check=False).out != "".join(wanted.values()):
                return Observed.absent()
        return Observed.ready(f"{len(self.spec.supply.mirrors)} registries")

    def apply(self, ctx: LabContext) -> None:
        for node in ctx.kubernetes_nodes():
            for path, text in mirror_files(self.spec.supply.mirrors, node.gateway).items():
                ctx.engine.write_file(node.name, path, text)


def mirror_files(mirrors: dict[str, str], gateway: str) -> dict[str, str]:
    """``hosts.toml`` of each registry, by its path in the node.

    A mirror is ``host[:port][/path]``, optionally with a scheme. ``localhost`` in it means this machine, which nodes
    reach at ``gateway``. If a mirror does not answer, containerd pulls from the registry itself.
    """
    files = {}
    for registry, mirror in sorted(mirrors.items()):
        host, _, path = without_scheme(mirror).partition("/")
        scheme = mirror.split("://")[0] if "://" in mirror else ("http" if is_local(host) else "https")
        if is_local(host):
            host = f"{gateway}:{host.partition(':')[2] or 80}"
        upstream = "registry-1.docker.io" if registry == "docker.io" else registry
        url = f"{scheme}://{host}/v2/{path}" if path else f"{scheme}://{host}"
        # a JSON string is a TOML string
        server, name = (json.dumps(text, ensure_ascii=False) for text in (f"https://{upstream}", url))
        lines = [f"server = {server}", "", f"[host.{name}]", '  capabilities = ["pull", "resolve"]']
        lines += ["  override_path = true"] if path else []
        files[f"{_FOLDER}/{registry}/hosts.toml"] = "\n".join(lines) + "\n"
    return files
