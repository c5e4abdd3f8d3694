"""``kailab e2e``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.operations.suites import e2e_command
from lab.tools.process import replace_process

app = command_app()


@app.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Examples: kailab e2e · kailab e2e --name demo --require kai,gpus · kailab e2e -k fraction -x",
)
def e2e(
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OPTION]...", help="--name NAME, --require LIST, and all options of pytest."),
    ] = None,
) -> None:
    """Run the suites against the running lab. JUnit, report and logs go to artifacts/e2e, or KAILAB_ARTIFACTS."""
    artifacts = Path(os.environ.get("KAILAB_ARTIFACTS", "artifacts/e2e"))
    replace_process([str(word) for word in e2e_command(artifacts, options or [])], {})
