"""The API server of the cluster in which this process runs, by its pod's service account."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.errors import ApiFailed, SpecError
from lab.kube.client import Cluster
from lab.kube.http import HttpTransport
from lab.kube.transport import ExecOutcome, Transport

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The kubelet's volume with ``token``, ``ca.crt`` and ``namespace`` (client-go, rest.InClusterConfig)."""


class InClusterTransport(HttpTransport):
    """HTTP with the credentials of the pod. Raises SpecError outside of pods.

    The kubelet replaces the token before it expires, so each request reads it again.
    """

    def __init__(self, folder: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] = os.environ) -> None:
        import urllib3  # noqa: TID251 - this is the door

        host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
        if not host or not port or not (folder / "token").is_file():
            raise SpecError(
                "this process does not run in a pod with a service account",
                evidence=(f"{folder}/token or KUBERNETES_SERVICE_HOST is missing",),
                fix="name a cluster with --kubeconfig FILE --context NAME",
            )
        pool = urllib3.PoolManager(maxsize=64, retries=False, ca_certs=str(folder / "ca.crt"))
        super().__init__(f"https://{f'[{host}]' if ':' in host else host}:{port}", pool)
        self._token = folder / "token"

    def exec(
        self, path: str, query: Sequence[tuple[str, str]], timeout: float, cancelled: Callable[[], bool]
    ) -> ExecOutcome:
        raise ApiFailed("commands in containers are not available in a pod", fix="run kailab outside of the cluster")

    def _credentials(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token.read_text().strip()}"}


def own_cluster(transport: Transport) -> Cluster:
    """The cluster of this pod, through ``transport``."""
    return Cluster(SERVICE_ACCOUNT, transport=transport)


def own_namespace(folder: Path = SERVICE_ACCOUNT) -> str:
    """The namespace of this pod."""
    return (folder / "namespace").read_text().strip()
