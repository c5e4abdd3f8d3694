"""A usage history for KAI's time-based fair share: answers only the queries that KAI sends to Prometheus.

KAI queries each resource's capacity, then its allocation by queue, both summed over a window, and takes their ratio
(pkg/scheduler/cache/usagedb/prometheus/prometheus.go, KAI 0.13 to 0.17). The pod runs busybox's httpd.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lab.workloads.modifiers import brief
from lab.workloads.pods import cpu_pod

PORT = 9090
PATH = "/cgi-bin"
"""Where httpd runs programs; KAI asks under it for api/v1/query."""

_SERVE = f"""
mkdir -p /tmp/www/cgi-bin/api/v1
cat > /tmp/www/cgi-bin/api/v1/query <<'END'
#!/bin/sh
asked=$(head -c "$CONTENT_LENGTH")
echo 'Content-Type: application/json'
echo
case "$asked" in
  *kube_node_status_capacity*) echo "$CAPACITY" ;;
  *kai_queue_allocated_gpus*) echo "$USAGE" ;;
  *) echo "$NOTHING" ;;
esac
END
chmod +x /tmp/www/cgi-bin/api/v1/query
trap 'exit 0' TERM
httpd -f -p {PORT} -h /tmp/www & wait
"""


def history_pod(name: str, used: Mapping[str, float]) -> dict[str, Any]:
    """Return a pod that reports each queue's past usage of all GPUs, from 0 to 1."""
    pod = brief(cpu_pod(name, scheduler=None))
    (container,) = pod["spec"]["containers"]
    container["command"] = ["sh", "-c", _SERVE]
    answers = {
        "CAPACITY": _vector([({}, 1.0)]),
        "USAGE": _vector([({"queue_name": queue}, share) for queue, share in used.items()]),
        "NOTHING": _vector([]),
    }
    container["env"] = [{"name": name, "value": value} for name, value in answers.items()]
    # KAI's scheduler queries at its start, so the pod must be Ready before.
    container["readinessProbe"] = {"tcpSocket": {"port": PORT}, "periodSeconds": 1}
    return pod


def _vector(samples: list[tuple[dict[str, str], float]]) -> str:
    """Return the answer to an instant query in Prometheus' format."""
    result = [{"metric": metric, "value": [0, str(value)]} for metric, value in samples]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})
