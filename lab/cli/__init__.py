"""The ``kailab`` command, one module per command: arguments → ``lab.operations`` → ``lab.ui`` and an exit code."""
