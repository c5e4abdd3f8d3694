"""Names of the watch in a cluster."""

from __future__ import annotations

from lab.invariants import ALL

NAME = "kailab-watch"
"""Its namespace, and the name of all of its objects; also its field of a journal."""

PORT = 9400

APP_LABELS = {"app.kubernetes.io/name": NAME}

CANARY_LABEL = "kailab.dev/canary"
"""Label of canary pods, with the value ``true``."""

INVARIANTS = tuple(invariant for invariant in ALL if not invariant.tenant_needs)
"""Those that need no credentials of tenants: the watch has its own cluster's only."""

KINDS = tuple(dict.fromkeys(kind for invariant in INVARIANTS for kind in invariant.needs))
"""The kinds that it lists and watches in all namespaces."""
