"""Where a kailab process starts and where every error ends."""

from __future__ import annotations

import sys

from lab.errors import LabError
from lab.serialization import document


def main() -> None:
    """Run the command line; turn errors into one message and an exit code of their own."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        from lab.cli.app import app

        app(prog_name="lab")
    except LabError as error:
        if debug:
            raise
        _tell(error, "--json" in sys.argv)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # the reader (head, less) went away: nothing to tell anyone
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        print(  # noqa: T201
            f"lab: unexpected error: {type(error).__name__}: {error}\n"
            "  next: run the same command with --debug and report the traceback",
            file=sys.stderr,
        )
        sys.exit(1)


def _tell(error: Exception, as_json: bool) -> None:
    assert isinstance(error, LabError)
    if as_json:
        import json

        print(json.dumps(document(error), indent=1))  # noqa: T201
        return
    from lab.ui.lab import render_error

    render_error(error)


if __name__ == "__main__":
    main()
