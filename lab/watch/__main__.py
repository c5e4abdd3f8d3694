"""The watch in a pod: ``python3 -m lab.watch``."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from lab.errors import Interrupted, LabError
from lab.kube.api import OWNER_LABEL
from lab.kube.in_cluster import InClusterTransport, own_cluster, own_namespace
from lab.watch.api_load import CountedTransport
from lab.watch.log import stdout_log
from lab.watch.names import PORT
from lab.watch.serve import INTERVAL, WatchSettings, serve


def parser() -> argparse.ArgumentParser:
    """The options, which lab/watch/manifests.py sets."""
    made = argparse.ArgumentParser(prog="python3 -m lab.watch", description=main.__doc__)
    made.add_argument("--port", type=int, default=PORT)
    made.add_argument("--canary-image", default="", help="image of canary pods; default: no canary pods")
    made.add_argument("--queue", action="append", default=[], help="a queue of canary pods; default: all leaf queues")
    made.add_argument("--interval", type=float, default=INTERVAL, help="seconds between the canary pods of a queue")
    made.add_argument("--owner", default="", help=f"value of the label {OWNER_LABEL} of canary pods")
    return made


def main() -> int:
    """Watch the pod's own cluster until SIGTERM; returns the exit code."""
    args = parser().parse_args()
    log, stopping = stdout_log(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        api = CountedTransport(InClusterTransport())
        cluster = own_cluster(api)
        cluster.cancel = stopping
        labels = {OWNER_LABEL: args.owner} if args.owner else {}
        settings = WatchSettings(
            args.port,
            canary_image=args.canary_image,
            queues=tuple(args.queue),
            interval=args.interval,
            namespace=own_namespace(),
            labels=labels,
        )
        serve(cluster, api, settings, stopping, log)
    except Interrupted:
        pass
    except LabError as error:
        log("error", what=error.what, evidence=error.evidence, next=error.fix)
        return error.exit_code
    log("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
