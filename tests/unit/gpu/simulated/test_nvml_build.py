"""The compiler for the simulated NVML library and its programs, and the error if none works."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import CommandFailed, Unavailable
from lab.gpu.simulated import nvml_build
from lab.gpu.simulated.nvml_build import PRODUCTS, ZIGLANG, build_library, library_in_cache, node_arch, source_digest
from tests.support.fakes import Call, FakeRunner

GLIBC = b"\x7fELF ... libc.so.6"
MUSL = b"\x7fELF ... libc.musl-x86_64.so.1"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "system", lambda: "Linux")


def compile_to(content: bytes) -> Callable[[Call], str]:
    """A compiler that writes ``content`` to the file after -o."""

    def compile_call(call: Call) -> str:
        Path(call.argv[call.argv.index("-o") + 1]).write_bytes(content)
        return ""

    return compile_call


def zig(runner: FakeRunner, tmp_path: Path) -> str:
    """Declare the installation of zig; returns its Python."""
    home = tmp_path / "cache" / "venvs" / ZIGLANG.replace("==", "-")
    home.mkdir(parents=True)
    runner.handle([sys.executable, "-m", "venv", "--clear", home], times=1)
    runner.handle([home / "bin/python", "-m", "pip", "install", "--quiet", "--no-input", ZIGLANG], times=1)
    return str(home / "bin/python")


def test_compiler_of_the_machine_runs_once_for_the_same_sources(runner: FakeRunner) -> None:
    runner.has("cc")
    cc = runner.handle("cc", out=compile_to(GLIBC), times=len(PRODUCTS))
    first = build_library(runner)
    assert build_library(runner) == first == library_in_cache("x86_64")
    assert {path.name: path.read_bytes() for path in first.parent.iterdir()} == {
        "libnvidia-ml.so.1": GLIBC,
        "nvidia-smi": GLIBC,
        "gpu-usage": GLIBC,
    }
    library, smi, usage = (call.argv for call in cc.calls)
    assert {"-Wall", "-Wextra", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"} <= set(library)
    assert not {"-shared", "-fPIC"} & {*smi, *usage}


def test_every_source_is_compiled(runner: FakeRunner) -> None:
    runner.has("cc")
    cc = runner.handle("cc", out=compile_to(GLIBC), times=len(PRODUCTS))
    build_library(runner)
    library, smi, usage = ({Path(word).name for word in call.argv if word.endswith(".c")} for call in cc.calls)
    assert library | smi | usage == {path.name for path in nvml_build.sources() if path.suffix == ".c"}
    assert {name.partition("_")[0] for name in library} == {"nvml"}
    assert smi & usage == {"nvml_config.c", "nvml_words.c", "old_glibc.c"}


def test_next_compiler_is_used_after_a_failure(runner: FakeRunner) -> None:
    runner.has("cc")
    runner.has("clang")
    runner.handle("cc", err="fatal error: stddef.h: No such file or directory", code=1, times=1)
    runner.handle("clang", out=compile_to(GLIBC), times=len(PRODUCTS))
    assert build_library(runner).read_bytes() == GLIBC


@pytest.mark.parametrize("compiler", ["none", "musl", "another system"])
def test_zig_is_used_without_a_compiler_for_glibc(
    runner: FakeRunner, tmp_path: Path, compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiler != "none":
        runner.has("cc")
    if compiler == "musl":
        runner.handle("cc", out=compile_to(MUSL), times=1)
    if compiler == "another system":
        monkeypatch.setattr(platform, "system", lambda: "Darwin")
        monkeypatch.setattr(platform, "machine", lambda: "arm64")
    triple = "aarch64-linux-gnu.2.17" if compiler == "another system" else "x86_64-linux-gnu.2.17"
    python = zig(runner, tmp_path)
    build = runner.handle(
        [python, "-m", "ziglang", "cc", "-target", triple], out=compile_to(GLIBC), times=len(PRODUCTS)
    )
    messages: list[str] = []
    assert build_library(runner, messages.append).read_bytes() == GLIBC
    assert str(tmp_path) in (build.calls[0].env or {})["ZIG_GLOBAL_CACHE_DIR"], "zig wrote outside the cache"
    assert ZIGLANG in messages[-2]
    words = {word for call in build.calls for word in call.argv}
    assert not {word for word in words if "--wrap" in word or word.endswith("old_glibc.c")}, (
        "zig does not support --wrap"
    )


def test_error_without_any_compiler_has_reason_and_fix(runner: FakeRunner, tmp_path: Path) -> None:
    runner.has("cc")
    runner.handle("cc", err="cc1: not found", code=1)
    runner.handle([sys.executable, "-m", "venv"], times=1)
    runner.handle([tmp_path / "cache/venvs" / ZIGLANG.replace("==", "-") / "bin/python"], err="no network", code=1)
    with pytest.raises(CommandFailed) as failed:
        build_library(runner)
    assert "cc1: not found" in failed.value.what
    assert "gcc" in failed.value.fix
    assert failed.value.evidence == ("no network",)
    assert not library_in_cache("x86_64").parent.exists(), "a partial build is left in the cache"


def test_digest_depends_on_sources_and_architecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = source_digest("x86_64")
    assert source_digest("aarch64") != before
    copies = []
    for source in nvml_build.sources():
        copies.append(tmp_path / source.name)
        copies[-1].write_bytes(source.read_bytes())
    monkeypatch.setattr(nvml_build, "sources", lambda: tuple(copies))
    assert source_digest("x86_64") == before
    copies[0].write_bytes(copies[0].read_bytes() + b"\n")
    assert source_digest("x86_64") != before


def test_other_architectures_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(Unavailable, match="riscv64"):
        node_arch()
