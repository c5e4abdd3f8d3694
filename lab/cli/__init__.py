"""The ``lab`` command: arguments → ``lab.api`` → output and exit code. No decisions about clusters in here."""

from lab.cli.app import app

__all__ = ["app"]
