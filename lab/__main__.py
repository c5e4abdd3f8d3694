"""Entry point: run the command line, print errors and set the exit code."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from lab.errors import LabError
from lab.objects.redact import redact
from lab.serialization import document


def main() -> None:
    """Run the command line; turn an exception into one message and its exit code."""
    # modules, manifests and API objects stay to the end: looking for cycles in them took a seventh of 'status'
    gc.set_threshold(100_000, 20, 20)
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        from lab.cli.app import app

        app(prog_name="lab" if Path(sys.argv[0]).name == "lab" else "kailab")
    except LabError as error:
        if debug:
            raise
        if "--json" in sys.argv:
            import json

            print(json.dumps(redact(document(error)), indent=1))  # noqa: T201
        else:
            from lab.ui.lab import render_error

            render_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # the reader (head, less) has exited
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        print(  # noqa: T201
            f"kailab: unexpected error: {type(error).__name__}: {error}\n"
            "  next: run the same command with --debug and report the traceback",
            file=sys.stderr,
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
