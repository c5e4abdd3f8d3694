"""The release pages of this machine: what public servers publish, under the paths of their addresses, over HTTP.

The programs, packages and charts are those of the cache, so their checksums are not upstream's.
"""

from __future__ import annotations

import contextlib
import shutil
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from lab.sums import digest
from lab.supply import Supply
from lab.tools.process import Runner


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Stay silent."""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder; yields the address, ``localhost:PORT``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"localhost:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def publish(supply: Supply, run: Runner, folder: Path) -> dict[str, str]:
    """Fill a folder with kind, kubectl, Helm, NVIDIA's packages and vCluster's chart; their sha256 by address."""
    rows = supply.catalogue.binaries
    made = {rows[name].release: supply.binary(name) for name in ("kind", "kubectl")}
    helm, toolkit = rows["helm"], rows["container-toolkit"]
    with tarfile.open(folder / "helm.tgz", "w:gz") as archive:
        archive.add(supply.binary("helm"), helm.member)
    made[helm.release] = folder / "helm.tgz"
    programs = sorted(supply.binary("container-toolkit").iterdir())
    for url in toolkit.packages:
        base = "-base_" in url
        parts = [path for path in programs if base == (path.name != "nvidia-container-runtime-hook")]
        made[url] = package(Path(urlsplit(url).path).name, parts, run, folder)
    made[supply.catalogue.charts["vcluster"].url] = supply.chart("vcluster")
    for url, path in made.items():
        target = folder / "pages" / urlsplit(url).path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return {url: digest(path) for url, path in made.items()}


def package(name: str, programs: list[Path], run: Runner, folder: Path) -> Path:
    """A Debian package with programs in /usr/bin, made by dpkg-deb like NVIDIA's."""
    root = folder / name.removesuffix(".deb")
    (root / "DEBIAN").mkdir(parents=True)
    (root / "usr" / "bin").mkdir(parents=True)
    package, version, arch = root.name.split("_")
    control = {"Package": package, "Version": version, "Architecture": arch, "Maintainer": "a test", "Description": "x"}
    (root / "DEBIAN" / "control").write_text("".join(f"{key}: {value}\n" for key, value in control.items()))
    for program in programs:
        shutil.copy(program, root / "usr" / "bin")
    run.run(["dpkg-deb", "-Zxz", "-z1", "--root-owner-group", "-b", root, folder / name])
    return folder / name
