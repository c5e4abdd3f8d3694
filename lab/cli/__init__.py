"""The ``lab`` command: arguments → ``lab.operations`` → ``lab.ui`` and an exit code."""
