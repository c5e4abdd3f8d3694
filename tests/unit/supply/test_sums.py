"""Damaged cache entries are noticed and made again; bundles use the same sums."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.config import LabSpec
from lab.host.check import CheckContext
from lab.supply import Item, Supply
from lab.supply.bundle import Bundle, create
from lab.supply.cache import making, place
from lab.supply.recipes import fetched
from lab.tools.container import ContainerEngine
from tests.support.fakes import FakeRunner

CHART = Item("chart", "vcluster")


def make(target: Path, text: str = "sound") -> bool:
    """Make a file of the cache as a fetch does; return whether it was needed."""
    with making(target) as needed:
        if needed:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    return needed


def rot(file: Path) -> None:
    """Change a byte as a failing disk does: size and time stay."""
    before = file.stat()
    body = bytearray(file.read_bytes())
    body[0] ^= 1
    file.write_bytes(body)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def supply(runner: FakeRunner) -> Supply:
    spec = LabSpec.model_validate({"supply": {"sources": ["present", "bundle"]}})
    return Supply(spec, runner, ContainerEngine(runner), engine_runs=False)


@pytest.fixture
def entry(supply: Supply) -> Path:
    """A chart in the cache."""
    target = fetched(CHART, supply.wanted(CHART), supply.catalogue)
    assert make(target)
    return target


def test_damaged_entry_is_made_again(entry: Path) -> None:
    entry.write_text("cut")
    assert make(entry)
    assert entry.read_text() == "sound"
    assert not make(entry)


def test_damaged_entry_is_not_present_and_the_plan_says_why(supply: Supply, entry: Path) -> None:
    assert supply.choose([CHART])[CHART].source == "present"
    entry.write_text("cut")
    supply.choices.clear()
    choice = supply.choose([CHART])[CHART]
    assert choice.source == "none"
    assert choice.why[0].startswith(f"present: {entry} is damaged: sha256 ")


def test_unchanged_entry_is_not_read_again(entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab import sums

    monkeypatch.setattr(sums, "digest", lambda path: pytest.fail(f"{path} was read"))
    assert not make(entry)


def test_copied_entry_with_another_time_stays(entry: Path) -> None:
    os.utime(entry, (1, 1))
    assert not make(entry)


def test_folder_with_a_changed_missing_or_added_file_is_made_again(tmp_path: Path) -> None:
    target = place("go", "kind", "abc")

    def build() -> bool:
        with making(target) as needed:
            if needed:
                target.mkdir(parents=True, exist_ok=True)
                for name in ("kind", "helm"):
                    (target / name).write_text(name)
                (target / "more").unlink(missing_ok=True)
        return needed

    assert build()
    assert not build()
    (target / "kind").write_text("dnik")
    assert build()
    (target / "helm").unlink()
    assert build()
    (target / "more").touch()
    assert build()
    assert not build()


def test_entry_of_an_older_kailab_gets_a_sum(supply: Supply) -> None:
    target = fetched(CHART, supply.wanted(CHART), supply.catalogue)
    target.parent.mkdir(parents=True)
    target.write_text("chart")
    assert not make(target)
    target.write_text("trahc")
    assert make(target)


def test_rotten_entry_is_found_by_a_full_check_and_made_again(entry: Path) -> None:
    from lab.operations.bundle import verify_cache

    assert verify_cache() == (1, [])
    rot(entry)
    checked, (wrong,) = verify_cache()
    assert checked == 1
    assert wrong.startswith(f"{entry}: sha256 ")
    assert make(entry)
    assert verify_cache() == (1, [])


def test_entry_deleted_after_the_plan_is_looked_for_again(supply: Supply, entry: Path, tmp_path: Path) -> None:
    create(tmp_path / "bundle", [(CHART, supply.wanted(CHART), entry)])
    supply.spec = LabSpec.model_validate({"supply": {"sources": ["present", "bundle"], "bundle": tmp_path / "bundle"}})
    assert supply.choose([CHART])[CHART].source == "present"
    entry.unlink()
    assert supply.path(CHART) == tmp_path / "bundle" / "charts" / f"vcluster-{supply.wanted(CHART)}.tgz"


def test_bundle_with_a_rotten_file_is_not_trusted_after_verify(entry: Path, tmp_path: Path) -> None:
    from lab.errors import LabError

    bundle = create(tmp_path / "bundle", [(CHART, "1", entry)])
    file = bundle.trusted(bundle.entries[0])
    rot(file)
    assert bundle.trusted(bundle.entries[0]) == file  # the price of not reading it each time
    assert len(bundle.verify()) == 1
    with pytest.raises(LabError, match="sha256"):
        Bundle.open(bundle.root).trusted(bundle.entries[0])


def test_plan_notices_a_missing_or_cut_file_of_a_bundle(entry: Path, runner: FakeRunner, tmp_path: Path) -> None:
    def supply_of(*bundles: str) -> Supply:
        spec = LabSpec.model_validate({"supply": {"sources": ["bundle"], "bundle": tmp_path / bundles[0]}})
        found = Supply(spec, runner, ContainerEngine(runner), engine_runs=False)
        found.bundles = tuple(Bundle.open(tmp_path / name) for name in bundles)
        return found

    version = Supply(LabSpec(), runner, ContainerEngine(runner), engine_runs=False).wanted(CHART)
    for name in ("cut", "whole"):
        create(tmp_path / name, [(CHART, version, entry)])
    file = tmp_path / "cut" / "charts" / f"vcluster-{version}.tgz"
    file.unlink()
    assert supply_of("cut").choose([CHART])[CHART].why == (f"bundle: {file}: missing",)
    file.write_text("s")
    assert supply_of("cut").choose([CHART])[CHART].why == (f"bundle: {file}: 1 bytes, expected 5",)
    supply = supply_of("cut", "whole")
    assert supply.choose([CHART])[CHART].where == str(tmp_path / "whole")
    assert supply.path(CHART) == tmp_path / "whole" / "charts" / file.name


def test_damaged_entry_does_not_get_into_a_bundle(entry: Path, tmp_path: Path) -> None:
    from lab.errors import LabError

    rot(entry)
    with pytest.raises(LabError, match="is damaged"):
        create(tmp_path / "bundle", [(CHART, "1", entry)])
    assert not (tmp_path / "bundle").exists()


def test_file_of_the_user_may_change_between_bundles(tmp_path: Path) -> None:
    chart = tmp_path / "mine.tgz"
    for number in range(2):
        chart.write_text(f"chart {number}")
        bundle = create(tmp_path / f"bundle-{number}", [(CHART, "1", chart)])
        assert bundle.verify() == []


def test_doctor_names_damaged_entries(entry: Path, runner: FakeRunner) -> None:
    from lab.host.checks import cache
    from lab.host.facts import HostFacts
    from lab.host.machine import Machine

    context = CheckContext(HostFacts(), runner, Machine())
    (fine,) = cache(context)
    assert fine.severity == "ok"
    entry.write_text("cut")
    (bad,) = cache(context)
    assert bad.severity == "warning"
    assert str(entry) in bad.what
    assert bad.next.startswith("rm -r ")
