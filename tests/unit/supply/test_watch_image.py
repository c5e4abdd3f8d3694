"""The image of ``kailab watch``: what it contains is what the program imports."""

from __future__ import annotations

import subprocess  # noqa: TID251 - a Python that has imported nothing yet
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from lab.config import LabSpec
from lab.paths import assets
from lab.supply import watch_image
from lab.supply.cache import silent
from lab.supply.catalogue import load
from lab.supply.recipes import archive_path
from lab.watch.manifests import LOCAL_IMAGE
from tests.support.fakes import FakeRunner

CATALOGUE = load(LabSpec().cluster.kubernetes)
ROW = CATALOGUE.image(LOCAL_IMAGE)
LOOK = """
import sys
import lab.watch.__main__, lab.kube.retry
from lab.kube.http import HttpTransport
import tenacity, urllib3
print(*sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names))
"""


@pytest.mark.processes(Path(sys.executable).name)
def test_program_imports_only_what_the_image_has() -> None:
    """Otherwise it would start on this machine, and not in a cluster."""
    block = "import sys; sys.modules.update(dict.fromkeys(['pydantic', 'yaml', 'kubernetes', 'rich', 'typer']))\n"
    done = subprocess.run([sys.executable, "-c", block + LOOK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert CATALOGUE.rootfs["watch"].packages == ("python3", "python3-tenacity", "python3-urllib3")


@pytest.mark.processes(Path(sys.executable).name)
def test_image_has_the_data_that_the_program_reads(tmp_path: Path) -> None:
    for name in watch_image._sources():
        copy = tmp_path / "lab" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((Path(watch_image.__file__).parents[1] / name).read_bytes())
    read = "import lab.kai; print(lab.kai.__file__, lab.kai.line_of('0.16.8').keys.queue)"
    env = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", read], capture_output=True, text=True, check=False, cwd=tmp_path, env=env
    )
    assert done.stdout.split() == [str(tmp_path / "lab/kai/__init__.py"), "kai.scheduler/queue"], done.stderr


def test_archive_has_the_program_readable_for_its_user(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base = tmp_path / "base.tar"
    tarfile.open(base, "w").close()
    monkeypatch.setattr(watch_image, "rootfs", lambda *_: base)
    archive = watch_image.make(ROW, CATALOGUE, tmp_path / "image.tar", runner, silent)
    with tarfile.open(archive) as image:
        upper = [name for name in image.getnames() if name.endswith("layer.tar")][-1]
        inner = image.extractfile(upper)
        with tarfile.open(fileobj=inner) as layer:
            files = {info.name: info for info in layer if info.isfile()}
    top = "usr/lib/python3/dist-packages/lab"
    assert {f"{top}/watch/__main__.py", f"{top}/kai/lines/every.toml"} <= files.keys()
    assert all(info.mode == 0o644 for info in files.values())
    assert not any("_assets" in name or "__pycache__" in name for name in files)


def test_image_is_made_again_when_the_code_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = archive_path(ROW, CATALOGUE)
    changed = tmp_path / "changed.py"
    changed.write_text("# another text\n")
    real = watch_image._sources()
    monkeypatch.setattr(watch_image, "_sources", lambda: {**real, "watch/serve.py": changed})
    assert archive_path(ROW, CATALOGUE) != before


def test_dockerfile_installs_the_same_packages() -> None:
    text = (assets("manifests") / "watch" / "Dockerfile").read_text()
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["name"]
    assert f"COPY dist/{project.replace('-', '_')}-*.whl /tmp/" in text
    assert 'pip install --no-cache-dir "tenacity>=9" "urllib3>=2.2"' in text
    assert f"USER {ROW.user}" in text
    assert '"python3", "-m", "lab.watch"' in text
