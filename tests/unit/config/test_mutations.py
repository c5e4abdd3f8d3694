"""1,000 mutated lab files through the command line: none ends in a traceback or leaves anything behind."""

from __future__ import annotations

import copy
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.__main__ import main
from lab.config import dump_spec, load_dumped, load_spec, profile_file, profile_names
from lab.errors import LabError
from lab.gpu import gpu_steps
from lab.paths import cache_path, state_root
from lab.steps.cluster.config import kind_config
from lab.steps.cluster.ports import ClusterPorts
from lab.steps.kai.values import kai_values
from lab.steps.queues import queue_documents
from lab.steps.registry_mirrors import mirror_files
from lab.tenants.vcluster.values import release_values, tenant_images
from tests.support.specs import PORT

COUNT = 1000
SEED = 17

CASES = Path(__file__).parents[2] / "data" / "config_cases"
RICH = """
name: rich
cluster: {workers: 4, kubernetes: 1.34.4}
gpu:
  mode: simulated
  perNode: 2
  pools: [{name: a, workers: 2, model: H100, labels: {zone: x}}, {name: b, devices: [0, 1]}]
kai: {version: 0.16.8, values: {binder: {replicas: 2}}}
queues: [{name: default}, {name: test, parent: default, gpu: {quota: 1.5, limit: 4, weight: 2}, priority: 100}]
tenants:
  - {name: own, mode: own-kai, kaiVersion: 0.16.8, nodes: [worker2], quota: {gpus: 1, cpu: 500m, memory: 16Gi, pods: 9}}
  - {name: shared, values: {controlPlane: {statefulSet: {resources: {limits: {memory: 2Gi}}}}}}
inference: {image: vllm/vllm-openai:v1, args: ["--model={model}"], model: tiny}
images: [ghcr.io/org/app:1]
supply: {sources: [present, bundle], mirrors: {ghcr.io: "localhost:5001"}, bundle: ./bundle}
"""

VALUES: tuple[Any, ...] = (
    *(None, True, False, "", " ", 0, -1, -0.5, 1e308, 2**63, 10**400, float("nan"), float("inf"), [], {}, [[]]),
    *(
        "x" * 5000,
        "ünïcödé-😀",
        "a\nb",
        "a\tb",
        "\x1b[31m",
        "../../etc",
        "$(id)",
        "; rm -rf /",
        "--help",
        "'\"",
        "{{x}}",
    ),
    *({"a": {"b": {"c": []}}}, [1, "x", None], "0.9.8", "0.5.0", "99.0.0", "1.36.0", "kai", "default", "existing"),
    *("host-kai", "own-kai", "nvidia", "none", "worker", "demo", "1" * 60, "2026-01-01", "0x10", "1_000", "~", "yes"),
)

Change = Callable[[random.Random, str], bytes]


def places(data: Any, loc: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in the data."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [loc, *(place for key, value in inner for place in places(value, (*loc, key)))][0 if loc else 1 :]


def change_values(rng: random.Random, text: str) -> bytes:
    """Replace, remove, rename, duplicate or move one to three values."""
    data = yaml.safe_load(text)
    for _ in range(rng.randint(1, 3)):
        found = places(data)
        if not found:
            break
        *outer, key = rng.choice(found)
        here = data
        for word in outer:
            here = here[word]
        match rng.randrange(6):
            case 0 | 1 | 2:
                here[key] = copy.deepcopy(rng.choice(VALUES))
            case 3:
                del here[key]
            case 4 if isinstance(here, dict):
                here[rng.choice([f"{key}x", str(key).upper(), "", "ü", "a b", "name"])] = here.pop(key)
            case _ if isinstance(here, list):
                here.append(copy.deepcopy(here[key]))
            case _:
                here[key] = {"nested": here[key]}
    return yaml.safe_dump(data, allow_unicode=rng.random() < 0.5).encode()


def change_lines(rng: random.Random, text: str) -> bytes:
    """Duplicate, drop, indent, swap or join lines, and add a tab."""
    lines = text.splitlines()
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines))
        match rng.randrange(6):
            case 0:
                lines.insert(at, lines[at])
            case 1 if len(lines) > 1:
                del lines[at]
            case 2:
                lines[at] = " " * rng.randint(1, 3) + lines[at]
            case 3:
                lines[at] = "\t" + lines[at]
            case 4:
                other = rng.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case _:
                lines[at] += rng.choice(
                    [":", " {", "]", " &a *a", " !!binary x", " |", " #", "\n---", "\n...", "\r", "\x85"]
                )
    return "\n".join(lines).encode()


def change_bytes(rng: random.Random, text: str) -> bytes:
    """Flip, insert or cut bytes: NUL bytes, other encodings, byte order marks."""
    raw = bytearray(text.encode())
    match rng.randrange(7):
        case 0:
            for _ in range(rng.randint(1, 8)):
                raw[rng.randrange(len(raw))] = rng.randrange(256)
        case 1:
            raw[rng.randrange(len(raw)) :] = b""
        case 2:
            raw.insert(rng.randrange(len(raw)), rng.choice([0, 7, 0xFF, 0x9F]))
        case 3:
            raw[:0] = rng.choice([b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"%YAML 9.9\n---\n", b"%TAG ! x\n---\n"])
        case 4:
            return text.encode(rng.choice(["utf-16", "utf-16-le", "utf-32", "utf-7"]))
        case 5:
            raw += rng.choice([b"[" * 5000, b"\nx: " + b"{a: " * 800, b"\n? " * 500, b"\nx: " + b"- " * 900])
        case _:
            bomb = "".join(
                f"\n{b}: &{b} [{', '.join([f'*{a}'] * 12)}]" for a, b in zip("abcdef", "bcdefg", strict=True)
            )
            raw += f"\na: &a [x]{bomb}\nloop: &l [*l]\n<<: *a\n".encode()
    return bytes(raw)


def mutated(number: int, sources: list[str]) -> bytes:
    rng = random.Random(SEED * 100_000 + number)
    change: Change = rng.choices([change_values, change_lines, change_bytes], [6, 3, 2])[0]
    try:
        return change(rng, rng.choice(sources))
    except (ValueError, yaml.YAMLError):  # a source that is not even YAML
        return change_bytes(rng, rng.choice(sources))


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run the command in this process, with the handlers of errors that a user meets; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["lab", *words])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def tree(*roots: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for root in roots for path in root.rglob("*") if path.is_file()}


def render(file: Path) -> None:
    """Everything that the plan of an accepted file computes without the machine."""
    spec = load_spec(file, (), {})
    assert load_dumped(dump_spec(spec)) == spec
    spec.warnings()
    kind_config(spec, ClusterPorts(6443), own_node=True)
    queue_documents(spec)
    mirror_files(spec.supply.mirrors, "172.18.0.1")
    for tenant in spec.tenants:
        tenant_images(tenant)
        release_values(spec, tenant, PORT if spec.cluster.own else None)
    if spec.gpu.mode == "auto":
        spec = spec.model_copy(update={"gpu": spec.gpu.model_copy(update={"mode": "simulated"})})
    gpu_steps(spec)
    kai_values(spec)


def test_mutated_lab_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n")
    sources = [profile_file(name).read_text() for name in profile_names()] + [RICH] * 3
    sources += [file.read_text(encoding="utf-8") for file in sorted(CASES.glob("*.yaml"))]
    sources = [text for text in sources if text.strip()]
    file = tmp_path / "lab.yaml"
    before = tree(state_root(), cache_path())
    codes: Counter[int] = Counter()
    wrong = []
    for number in range(COUNT):
        file.write_bytes(mutated(number, sources))
        code = run(monkeypatch, "lint", "pod.yaml", "-f", "lab.yaml")
        err = capsys.readouterr().err
        codes[code] += 1
        if code == 2:
            placed = re.search(r"lab\.yaml(:\d+| )", err) or re.search(r"lab\.yaml: (is|cannot|file)", err)
            good = placed and "next:" in err and "Traceback" not in err
        else:
            good = code in (0, 12)
            try:
                render(file)
            except LabError as error:
                good = False
                err += f"\n{type(error).__name__}: {error}"
            except Exception as error:  # noqa: BLE001 - what the property excludes
                good = False
                err += f"\n{type(error).__name__}: {error}"
        if not good:
            wrong.append(f"{number}: code {code}: {err[-400:]}")
    assert wrong == [], f"{len(wrong)} of {COUNT}, by code {dict(codes)}"
    assert codes[0] + codes[12] > COUNT / 50  # not everything is refused, or nothing was tried
    assert codes[2] > COUNT / 2
    assert tree(state_root(), cache_path()) == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["lab.yaml", "pod.yaml"]
