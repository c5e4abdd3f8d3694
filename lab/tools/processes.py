"""Processes of this machine."""

from __future__ import annotations

from pathlib import Path


def processes(root: Path) -> list[tuple[int, str]]:
    """Processes that still work for the lab with this state directory: id and command line of those that name it."""
    needle = str(root)
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(needle in word for word in words) and "down" not in words:
            found.append((int(folder.name), " ".join(words)[:120]))
    return found
