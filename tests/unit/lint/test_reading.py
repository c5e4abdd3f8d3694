"""What lint reads: YAML, stdin, Markdown, shell blocks, pasted text, and text that is not YAML."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from lab.errors import SpecError
from lab.kai import line_of
from lab.lint import LintContext, lint_files, read_all

ANY = LintContext(line_of("0.16.8"))
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations:
    gpu-fraction: "1.5"
spec:
  schedulerName: kai-scheduler
  containers: [{name: c, image: i}]
"""


def found(folder: Path, name: str, text: str) -> list[tuple[int, str]]:
    file = folder / name
    file.write_text(text)
    return [(one.line, one.rule) for one in lint_files([file], ANY) if one.severity != "note"]


def indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}" for line in text.splitlines(keepends=True))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"# Guide\n\n```yaml\n{POD}```\n", 9),
        (f"1. Run:\n\n   ~~~ yml\n{indented(POD, 3)}   ~~~\n", 9),
        (f"```\n{POD}```\n", 7),
        (f"```bash\nkubectl apply -n team -f - <<EOF\n{POD}EOF\nkubectl get pods\n```\n", 8),
        (f"```yaml\ncat <<'END' | kubectl apply -f -\n{POD}END\n```\n", 8),
        (f"Paste this:\n{POD}Then wait for it.\n", 7),
    ],
    ids=["fence", "list", "no language", "heredoc", "heredoc in yaml", "pasted"],
)
def test_manifests_in_markdown_keep_their_lines(tmp_path: Path, text: str, line: int) -> None:
    assert found(tmp_path, "guide.md", text) == [(line, "fraction-out-of-range")]


def test_fragments_and_other_languages_are_no_manifests(tmp_path: Path) -> None:
    text = "```yaml\nspec:\n  a: [\n```\n\n```go\nkind: x\n```\n\nNote: a colon.\n"
    with pytest.raises(SpecError, match="no manifest to lint"):
        found(tmp_path, "guide.md", text)
    assert read_all([tmp_path / "guide.md"], empty=True) == ()


def test_broken_yaml_is_a_finding_and_the_rest_is_linted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Pod\nspec: [\n")
    (tmp_path / "b.yaml").write_text(POD)
    rules = [(Path(one.file).name, one.rule) for one in lint_files([tmp_path], ANY) if one.severity == "error"]
    assert rules == [("a.yaml", "not-yaml"), ("b.yaml", "fraction-out-of-range")]


def test_a_template_is_rendered_first(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("kind: Pod\nmetadata:\n  {{- toYaml .x }}\n")
    (note,) = lint_files([file], ANY)
    assert (note.rule, note.severity, note.next) == ("not-yaml", "note", "helm template CHART | kailab lint -")


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(POD))
    assert [(one.file, one.line, one.rule) for one in lint_files([Path("-")], ANY) if one.severity == "error"] == [
        ("stdin", 6, "fraction-out-of-range")
    ]


def test_lost_indentation_excludes_other_findings(tmp_path: Path) -> None:
    pasted = "\n".join(line.strip() for line in POD.splitlines())
    assert found(tmp_path, "guide.txt", f"Example:\n{pasted}\nThat is all.\n") == [(4, "indentation-lost")]
