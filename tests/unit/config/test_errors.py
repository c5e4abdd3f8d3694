"""Each kind of invalid lab file, with its exact error message."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.config import load_spec
from lab.errors import SpecError
from lab.serialization import to_json

CASES = Path(__file__).parents[2] / "data" / "config_cases"


@pytest.mark.parametrize("case", sorted(CASES.glob("*.yaml")), ids=lambda case: case.stem)
def test_invalid_file_is_refused(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``config_cases/X.yaml`` is refused with the text in ``config_cases/X.txt``."""
    monkeypatch.chdir(CASES)
    with pytest.raises(SpecError) as caught:
        load_spec(Path(case.name), (), {})
    assert f"{caught.value}\n" == case.with_suffix(".txt").read_text(encoding="utf-8")
    assert caught.value.exit_code == 2
    assert caught.value.fix


def test_every_message_has_its_file() -> None:
    assert {case.stem for case in CASES.glob("*.txt")} == {case.stem for case in CASES.glob("*.yaml")}


def refusal(file: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(file, (), {})
    assert caught.value.fix
    return caught.value.what


BOMB = b"a: &a [x, x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (after, after, b", ".join([b"*%c" % before] * 10))
    for before, after in zip(b"abcd", b"bcde", strict=True)
)


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"", ": is empty"),
        (b"\xef\xbb\xbf\r\n", ": is empty"),
        (b"name: demo\nimages: [caf\xe9]\n", ":2: is not UTF-8 text (byte 0xe9)"),
        ("name: demo".encode("utf-16"), ":1: is not UTF-8 text (byte 0xff)"),
        (b"\x7fELF\x02\0\0\0\0", ": is a binary file, not a lab file"),
        (b"#" * ((1 << 20) + 1), ": is larger than 1 MiB, not a lab file"),
        (b"images: " + b"[" * 1000, ":1:1: not valid YAML: nested too deeply"),
        (BOMB, ":1:1: not valid YAML: more than 20000 values"),
    ],
    ids=["empty", "bom-only", "latin-1", "utf-16", "binary", "huge", "deep", "alias-bomb"],
)
def test_unreadable_text_is_refused(tmp_path: Path, raw: bytes, what: str) -> None:
    file = tmp_path / "lab.yaml"
    file.write_bytes(raw)
    assert refusal(file) == f"{file}{what}"


def test_missing_file_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "lab.yaml") == f"{tmp_path / 'lab.yaml'}: file not found"


def test_directory_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path}: is a directory"


def test_endless_file_is_refused() -> None:
    assert refusal(Path("/dev/zero")) == "/dev/zero: is a binary file, not a lab file"


def test_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert (
        refusal(tmp_path / "file" / "lab.yaml") == f"{tmp_path / 'file' / 'lab.yaml'}: cannot be read: Not a directory"
    )


def test_json_names_the_line_of_every_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASES)
    with pytest.raises(SpecError) as caught:
        load_spec(Path("existing_without_cluster.yaml"), (), {})
    why = "is missing: provider 'existing' needs kubeconfig and context"
    first, *evidence = to_json(caught.value)["evidence"]
    assert first.startswith("existing_without_cluster.yaml:1: budget.gpus: is missing: ")
    assert evidence == [
        f"existing_without_cluster.yaml:2: cluster.kubeconfig: {why}",
        f"existing_without_cluster.yaml:2: cluster.context: {why}",
    ]
