"""Builds and bundles whose process is killed, whose disk is full, or that run twice at once: repeated, they finish.

No engine and no cluster: the command builds images and a chart into a cache of its own.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import subprocess  # noqa: TID251 - the command under test, from outside
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil  # noqa: TID251 - to kill what the command started
import pytest

from lab.files import TEMPORARY
from lab.paths import cache_root
from lab.tools.lock import lock_now

IMAGES = ("registry.k8s.io/pause:3.10.1", "registry.kailab.dev/probe:2")
CHART = ("--chart", "vcluster")
KILLS = 12
SECONDS = 900


@dataclass
class Place:
    """A cache of its own, and the directory for temporary files; ``go`` is Go's build cache."""

    root: Path
    go: Path

    def __post_init__(self) -> None:
        self.cache, self.temporary = self.root / "cache", self.root / "tmp"
        for folder in (self.cache, self.temporary):
            folder.mkdir(parents=True)
        for helm in (cache_root() / "go").glob("helm-*"):  # as if it had been built here before
            shutil.copytree(helm, self.cache / "go" / helm.name)

    def start(self, *words: str, wrapped: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        """Start the command with sources present and build only."""
        return subprocess.Popen(
            [*wrapped, sys.executable, "-m", "lab", *words],
            env={
                **os.environ,
                "KAILAB_CACHE": str(self.cache),
                "KAILAB_STATE": str(self.root / "state"),
                "GOCACHE": str(self.go),
                "TMPDIR": str(self.temporary),
            },
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __call__(self, *words: str, wrapped: tuple[str, ...] = ()) -> str:
        """Run the command; it has to succeed."""
        process = self.start(*words, wrapped=wrapped)
        out, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, out
        return out

    def killed(self, after: float, everything: bool, *words: str) -> float | None:
        """Run the command, and kill it, or it and all that it started, after some seconds.

        Returns the seconds that it took if it ended before.
        """
        start = time.monotonic()
        process = self.start(*words)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(after)
            return time.monotonic() - start
        victims = [psutil.Process(process.pid)]
        if everything:
            victims += victims[0].children(recursive=True)
        for victim in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        process.communicate(timeout=SECONDS)
        psutil.wait_procs(victims, SECONDS)
        return None

    def made(self) -> dict[str, bytes]:
        """The bytes of every image and layer; of a chart, which has the time of its making in it, its files."""
        found = {}
        for path in sorted(self.cache.glob("images/*")) + sorted(self.cache.glob("layers/*")):
            found[path.name] = path.read_bytes()
        for path in self.cache.glob("charts/*"):
            with tarfile.open(path) as tar:
                for member in tar:
                    file = tar.extractfile(member)
                    found[f"{path.name}/{member.name}"] = file.read() if file else b""
        return found

    def leftovers(self) -> list[str]:
        """Temporary files here, and locks that are held."""
        with ExitStack() as stack:
            held = []
            for path in self.cache.glob("locks/*"):
                lock = lock_now(path)
                if lock is None:
                    held.append(f"{path} is held")
                else:
                    stack.enter_context(lock)
        hidden = [str(path) for path in self.root.rglob("*") if TEMPORARY.fullmatch(path.name)]
        return held + hidden + [str(path) for path in self.temporary.iterdir() if not is_pythons_own(path)]


def is_pythons_own(path: Path) -> bool:
    """Whether it is the file by which Python's tempfile finds out whether it may write to the directory."""
    return bool(re.fullmatch(r"[a-z0-9_]{8}", path.name)) and path.is_file() and path.read_bytes() in (b"", b"blat")


def words(out: Path, *more: str) -> list[str]:
    """Write a bundle of two images, and ``more``, each built here."""
    images = [word for name in IMAGES for word in ("--image", name)]
    sources = ("--set", "supply.sources=[present, build]", "--set", "gpu.mode=none")
    return ["bundle", "create", "--profile", "minimal", *sources, *images, *more, "--out", str(out)]


@pytest.fixture(scope="module")
def go_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("go") is None or shutil.which("apt-get") is None:
        pytest.skip("no go command, or no apt")
    return tmp_path_factory.mktemp("go-build")


@pytest.fixture(scope="module")
def reference(go_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], float]:
    """What an undisturbed build makes, and its seconds once Go has compiled its own library."""
    first = Place(tmp_path_factory.mktemp("first") / "x", go_cache)
    first(*words(first.root / "bundle", *CHART))
    second = Place(tmp_path_factory.mktemp("second") / "x", go_cache)
    start = time.monotonic()
    second(*words(second.root / "bundle", *CHART))
    took = time.monotonic() - start
    assert first.made() == second.made()
    assert not first.leftovers() + second.leftovers()
    return first.made(), took


@pytest.fixture
def place(go_cache: Path, tmp_path: Path) -> Iterator[Place]:
    yield Place(tmp_path / "x", go_cache)
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.timeout(3600)
def test_killed_builds_go_on_and_end_with_equal_bytes(place: Place, reference: tuple[dict[str, bytes], float]) -> None:
    """At each moment, and with what the command started or without it."""
    expected, took = reference
    chance = random.Random(17)
    stopped = 0
    for number in range(3 * KILLS):
        if number % 4 == 0:  # from the beginning
            shutil.rmtree(place.root)
            place.__post_init__()
        shutil.rmtree(place.root / "bundle", ignore_errors=True)
        done = place.killed(chance.uniform(0.2, 1.0) * took, bool(number % 2), *words(place.root / "bundle", *CHART))
        took = min(took, done or took)  # the machine may be less busy now
        stopped += done is None
        if stopped == KILLS:
            break
    assert stopped == KILLS
    shutil.rmtree(place.root / "bundle", ignore_errors=True)
    place(*words(place.root / "bundle", *CHART))
    assert place.made() == expected
    assert "all" in place("bundle", "verify", str(place.root / "bundle"))
    assert "match" in place("bundle", "verify")
    assert not place.leftovers()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["demo.tar", "folder"])
def test_killed_bundle_is_written_and_unpacked_when_repeated(go_cache: Path, tmp_path: Path, name: str) -> None:
    place = Place(tmp_path / "x", go_cache)
    archives = []
    for number in range(4):
        archives.append(place.root / f"{number}.tar")
        archives[-1].write_bytes(random.Random(number).randbytes(24 * 2**20))
    images = [word for path in archives for word in ("--image", f"example.com/{path.name}:1={path}")]
    out = place.root / name
    create = ["bundle", "create", "--profile", "minimal", *images, "--out", str(out)]
    for command in (create, ["bundle", "verify", str(out)]):
        start = time.monotonic()
        place(*command)
        took = time.monotonic() - start
        stopped = 0
        for number in range(KILLS):
            for made in (*place.cache.glob("unpacked"), *([out] if command is create else [])):
                shutil.rmtree(made) if made.is_dir() else made.unlink(missing_ok=True)
            done = place.killed((0.3 + 0.07 * (number % 10)) * took, True, *command)
            took = min(took, done or took)
            stopped += done is None
            if not out.exists():  # else it was renamed before the kill, so it is complete
                place(*command)
            assert "all 4 files match" in place("bundle", "verify", str(out))
            if stopped == KILLS // 2:
                break
        assert stopped >= KILLS // 4
    assert "all 4 files match" in place("bundle", "verify", str(out))
    assert not place.leftovers()
    assert len(list(place.cache.glob("unpacked/*"))) == (1 if out.is_file() else 0)


@pytest.mark.timeout(3600)
def test_two_processes_build_the_same_at_once(place: Place, reference: tuple[dict[str, bytes], float]) -> None:
    both = [place.start(*words(place.root / name, *CHART)) for name in ("one", "two")]
    for process in both:
        out, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, out
    assert place.made() == reference[0]
    assert not place.leftovers()


IN_TMPFS = """
set -eu
cache=$1; shift
mount -t tmpfs -o size=1g tmpfs "$cache"
for step in "$@"; do case "$step" in
  full) mount -o "remount,size=$KIB"k "$cache" ;;
  roomy) mount -o remount,size=1g "$cache" ;;
  read-only) mount -o remount,ro "$cache" ;;
  writable) mount -o remount,rw "$cache" ;;
  list) find "$cache" -name '.*kailab-*' -printf 'left: %p\\n' ;;
  lab) set +e; eval "$LAB"; echo "exit $?"; set -e ;;
esac; done
"""


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kib", [8, 600, 16000])
def test_full_disk_is_a_message_and_a_roomy_one_finishes(
    place: Place, reference: tuple[dict[str, bytes], float], kib: int
) -> None:
    out = in_tmpfs(place, kib, "full", "lab", "list", "roomy", "lab", "list")
    first, code, _ = re.split(r"^exit (\d+)$", out, maxsplit=1, flags=re.M)
    assert code in ("1", "10"), out
    assert "no space left on device" in first.lower(), out
    assert "unexpected error" not in out
    assert out.count("exit 0") == 1, out
    assert "left: " not in out, out


def test_read_only_cache_is_a_message(place: Place) -> None:
    out = in_tmpfs(place, 0, "read-only", "lab", "list", "writable", "lab", "list")
    assert "Read-only file system" in out, out
    assert "exit 1\n" in out
    assert "unexpected error" not in out
    assert out.count("exit 0") == 1, out
    assert "left: " not in out, out


def in_tmpfs(place: Place, kib: int, *steps: str) -> str:
    """Run steps with the cache on a small disk of its own, which only these processes see."""
    if os.geteuid() or shutil.which("unshare") is None:
        pytest.skip("mounting a small disk needs root and unshare")
    command = f"{sys.executable} -m lab {' '.join(map(repr, words(place.root / 'bundle')))}"
    env = {"LAB": command, "KIB": str(kib), "KAILAB_CACHE": str(place.cache), "TMPDIR": str(place.temporary)}
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", IN_TMPFS, "sh", str(place.cache), *steps],
        env={**os.environ, **env, "KAILAB_STATE": str(place.root / "state"), "GOCACHE": str(place.go)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=place.root,
        timeout=SECONDS,
        check=False,
    )
    return done.stdout
