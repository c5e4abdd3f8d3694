"""Text for a user's first minutes: the profiles to choose from, and what 'kailab try' shows."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from lab.operations.profiles import ProfileOffer
from lab.operations.trial import NAMESPACE, SHARE, WAITING, Trial
from lab.text import seconds
from lab.ui.explain import render_explained
from lab.ui.gpus import render_gpus
from lab.ui.text_writer import TextWriter


def render_profiles(offers: Sequence[ProfileOffer], console: Console | None = None) -> None:
    """The profiles with what each is for, needs and took, on stderr."""
    page = TextWriter(console, stderr=True)
    page.heading("No lab file here: which lab?", "kailab init writes a lab file of your own")
    for number, offer in enumerate(offers, 1):
        took = f"; took {seconds(offer.seconds)} last time" if offer.seconds is not None else ""
        page.line(f"{number}  ", (offer.name, "bold"), f"  {offer.summary}", indent=1)
        page.line((f"{', '.join(offer.needs)}{took}", "dim"), indent=4)
    page.line(("A first lab also fetches or builds what the cache lacks; kailab plan shows what.", "dim"), indent=1)


def render_trial(trial: Trial, lab: str, console: Console | None = None) -> None:
    """The GPUs that pods share, and why another pod waits, each with the command that shows it again."""
    page = TextWriter(console)
    page.heading(f"Two pods with {SHARE:g} of a GPU each share one GPU")
    page.line((f"$ kailab gpus --name {lab}", "dim"), indent=1)
    render_gpus(trial.gpus, f"lab {lab}", console)
    page.heading(f"A third pod with {SHARE:g} of a GPU has to wait")
    page.line((f"$ kailab explain {NAMESPACE}/{WAITING} --name {lab}", "dim"), indent=1)
    render_explained(trial.explanation, console)
    page.blank()


def render_trial_kept(lab: str, kubeconfig: object, console: Console | None = None) -> None:
    """What to do with the lab that stays."""
    page = TextWriter(console)
    page.line(f"kubectl --kubeconfig {kubeconfig} -n {NAMESPACE} get pods", indent=1)
    page.line(f"kailab e2e --name {lab}", (" · ", "dim"), f"kailab down --name {lab}", indent=1)
