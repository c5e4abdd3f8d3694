"""The ``kailab`` command on a scratch host."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from tests.integration.conftest import Cli
from tests.integration.scratch.host import ScratchHost, environment


class ScratchCli(Cli):
    """The ``kailab`` command on a scratch host; ``root`` is a new directory below the host's home.

    ``file`` has the lab file.
    """

    def __init__(self, host: ScratchHost, root: Path, lab: dict[str, Any], **env: str) -> None:
        root.mkdir()
        self.host = host
        super().__init__(root)
        self.env = {**environment(), "KAILAB_STATE": str(root / "state"), "KUBECONFIG": str(self.kubeconfig), **env}
        self.file = root / "real.yaml"
        self.file.write_text(yaml.safe_dump(lab))

    def argv(self, *words: str) -> list[str]:
        """Return the command line."""
        return self.host.argv(sys.executable, "-m", "lab", *words, cwd=self.root)
