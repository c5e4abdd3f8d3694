"""Advice about the KAI that runs: defects, support, and a version or Kubernetes that is unknown to it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lab.errors import LabError
from lab.operations.kai.advise import advice_on
from lab.ui.kai_advice import render_kai_advice
from tests.support.explain_world import Scene, node


def test_defects_and_support_are_those_of_the_running_version() -> None:
    found = advice_on(Scene("0.14.7").world)
    assert (found.version, found.line, found.kubernetes, found.warnings) == ("0.14.7", "0.14", "1.34.4", ())
    assert (found.support.kind, found.support.until) == ("LTS", "Mar 2027")
    cures = {defect.id: defect.fixed_in for defect in found.defects}
    assert cures["deleted-podgroup-written"] == "0.17.0"
    assert cures["reservation-lost-on-retry"] == ""
    assert "double-reservation" not in cures


def test_kubernetes_outside_the_validated_range_is_a_warning() -> None:
    scene = Scene("0.14.7").add(node("worker-1", version="v1.36.1"))
    (warning,) = advice_on(scene.world).warnings
    assert warning == "KAI 0.14.7 is validated with Kubernetes 1.31 to 1.35, not 1.36.1"


def test_version_newer_than_all_known_is_a_warning() -> None:
    found = advice_on(Scene("0.18.3").world)
    assert found.warnings[0].startswith("KAI 0.18.3 is newer than all releases that kailab knows (to 0.17.0)")
    assert "over-packed-burst" in {defect.id for defect in found.defects}


def test_cluster_without_kai_is_an_error_with_a_next_action() -> None:
    with pytest.raises(LabError, match="no KAI runs in this cluster") as caught:
        advice_on(Scene("").world)
    assert "kailab kai versions" in caught.value.fix


def test_advice_is_printed_with_its_proof_and_cure() -> None:
    out = io.StringIO()
    render_kai_advice(advice_on(Scene("0.16.8").world), Console(file=out, width=200, highlight=False))
    text = out.getvalue()
    assert text.startswith("KAI 0.16.8 on Kubernetes 1.34.4, line 0.16")
    assert "LTS until Jun 2027; validated with Kubernetes 1.28 to 1.36" in text
    assert "in 0.9.3 to 0.16.8; seen with 0.16.8" in text
    assert "next: use KAI 0.17.0 or newer" in text
    assert "next: look at the pod's spec.nodeName: without it the pod is not bound" in text
