"""Exported symbols of the simulated libnvidia-ml.so.1, and the glibc that it and its programs need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.gpu.simulated.nvml_build import PRODUCTS, build_library
from lab.tools.process import HostRunner


@pytest.fixture
def library() -> Path:
    return build_library(HostRunner())


def test_every_known_nvml_function_exists(library: Path) -> None:
    """pynvml's list is newer than go-nvml's header; scripts/nvml_symbols.py --check knows both."""
    if HostRunner().which("nm") is None:
        pytest.skip("nm is not installed (package binutils)")
    import pynvml  # noqa: TID251 - its source is read, not its API called

    known = set(re.findall(r'_nvmlGetFunctionPointer\("(nvml\w+)"\)', Path(pynvml.__file__).read_text()))
    listing = HostRunner().run(["nm", "-D", "--defined-only", library]).out
    shown = {line.split()[2] for line in listing.splitlines()}
    assert len(known) > 300
    assert known - shown == set()
    assert {name for name in shown if not name.startswith("nvml")} == set(), "the library exports other names"


@pytest.mark.parametrize("name", [product.name for product in PRODUCTS])
def test_it_starts_on_old_systems(library: Path, name: str) -> None:
    """RHEL 7 and Debian 8 have glibc 2.17 and 2.19."""
    text = (library.parent / name).read_bytes()
    needed = {tuple(map(int, v.split(b"."))) for v in re.findall(rb"GLIBC_(\d+\.\d+)", text)}
    assert needed
    assert max(needed) <= (2, 17)
    assert b"GLIBC_ABI" not in text
    assert set(re.findall(rb"lib[\w+-]+\.so[.\d]*", text)) <= {
        b"libc.so.6",
        b"libdl.so.2",
        b"libpthread.so.0",
        b"libnvidia-ml.so.1",
        b"libnvidia-ml.so",
    }
