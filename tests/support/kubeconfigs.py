"""Kubeconfigs with several contexts, as users have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

SERVER = "https://10.0.0.1:6443"


def config(**user: Any) -> dict[str, Any]:
    """A kubeconfig with the contexts ``prod``, which is the current one, and ``test``."""
    return {
        "current-context": "prod",
        "clusters": [
            {"name": "theirs", "cluster": {"server": "https://prod:6443"}},
            {"name": "ours", "cluster": {"server": SERVER}},
        ],
        "users": [{"name": "admin", "user": {"token": "secret"}}, {"name": "dev", "user": user}],
        "contexts": [
            {"name": "prod", "context": {"cluster": "theirs", "user": "admin"}},
            {"name": "test", "context": {"cluster": "ours", "user": "dev", "namespace": "mine"}},
        ],
    }


def written(path: Path, data: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return path
