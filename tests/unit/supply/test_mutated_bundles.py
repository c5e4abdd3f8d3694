"""300 bundles with a fault each: every command ends with a message and an exit code, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from lab.__main__ import main
from lab.config import LabSpec
from lab.errors import LabError
from lab.supply import Item, Supply
from lab.tools.container import ContainerEngine
from tests.support.fakes import FakeRunner
from tests.support.mutated_bundles import ITEMS, Mutation, sound

MUTATIONS = 300
SECONDS = 10


def tree(*roots: Path) -> set[tuple[str, int, int]]:
    """Every path with its mode and size."""
    return {
        (str(path), (stat := path.lstat()).st_mode, stat.st_size if path.is_file() else 0)
        for root in roots
        for path in root.rglob("*")
    }


def lab(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run the command line as the program does, and return the exit code."""
    monkeypatch.setattr(sys, "argv", ["lab", *words])
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


def supply_items(runner: FakeRunner, bundle: Path) -> None:
    """Read the bundle as ``kailab plan`` and the bake do."""
    spec = LabSpec.model_validate({"supply": {"sources": ["bundle"], "bundle": bundle}})
    supply = Supply(spec, runner, ContainerEngine(runner), engine_runs=False)
    for kind, name in [*ITEMS.items(), ("binary", "container-toolkit")]:
        item = Item(kind, name, "" if kind == "image" else "1")
        if supply.choose([item])[item].source == "bundle":
            supply.path(item)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    os.environ.setdefault("KAILAB_CACHE", str(tmp_path_factory.mktemp("cache")))
    return sound(tmp_path_factory.mktemp("original") / "bundle")


def too_long(*_: object) -> None:
    raise AssertionError(f"not done after {SECONDS} s")


@pytest.mark.parametrize("block", range(10))
def test_every_command_says_what_is_wrong_and_leaves_nothing(
    block: int,
    original: Path,
    tmp_path: Path,
    runner: FakeRunner,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    codes: Counter[str] = Counter()
    wrong: list[str] = []
    signal.signal(signal.SIGALRM, too_long)
    for seed in range(block * MUTATIONS // 10, (block + 1) * MUTATIONS // 10):
        folder = tmp_path / f"case-{seed}"
        folder.mkdir()
        case = Mutation(folder, original, seed)
        (folder / "victim").exists() or (folder / "victim").write_text("another's")
        (folder / "victim").chmod(0o600)
        before = tree(folder)
        for words in (["verify"], ["show"]) if seed % 2 else (["verify", "--json"], ["show", "--json"]):
            signal.alarm(SECONDS)
            code = lab(monkeypatch, "bundle", words[0], str(case.path), *words[1:])
            signal.alarm(0)
            out, err = capsys.readouterr()
            codes[f"{' '.join(words)}: {code}"] += 1
            if code not in (0, 1) or "unexpected error" in err or "Traceback" in err + out:
                wrong.append(f"{case.text}: bundle {' '.join(words)}: exit code {code}: {err or out:.300}")
            elif code == 1 and not (err + out).strip():
                wrong.append(f"{case.text}: bundle {' '.join(words)}: no message")
            elif "\x1b[2J" in out + err:
                wrong.append(f"{case.text}: bundle {' '.join(words)}: prints a control character of the bundle")
        try:
            signal.alarm(SECONDS)
            supply_items(runner, case.path)
            codes["supply: 0"] += 1
        except LabError as error:
            codes[f"supply: {error.exit_code}"] += 1
        except Exception as error:  # noqa: BLE001 - each is a finding
            wrong.append(f"{case.text}: supply: {type(error).__name__}: {error}")
        signal.alarm(0)
        if new := {path for path, *_ in tree(folder) ^ before}:
            wrong.append(f"{case.text}: changed {', '.join(sorted(new))}")
        if left := {path.name for path in tmp_path.iterdir()} - {"cache", "state", f"case-{seed}"}:
            wrong.append(f"{case.text}: left {left}")
        cache = tmp_path / "cache"
        kept = ("locks", "sums", "unpacked", "CACHEDIR.TAG")
        strange = [path for path in cache.glob("*") if path.name not in kept] + list(cache.glob("*/.*"))
        if code:  # 'show' could not read it; else it stays unpacked
            strange += (cache / "unpacked").glob("*")
        if strange:
            wrong.append(f"{case.text}: left {strange}")
        shutil.rmtree(cache, ignore_errors=True)
        shutil.rmtree(folder)
    (tmp_path / "codes").write_text(f"{sorted(codes.items())}\n")
    assert not wrong, "\n".join([f"{len(wrong)} problems", *map(ascii, wrong)])
