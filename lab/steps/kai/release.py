"""Names of KAI's Helm release and namespaces, the same in all version lines."""

from __future__ import annotations

from lab.kai import lines

_ANY = next(iter(lines().values()))
NAMESPACE, RESERVATIONS, RELEASE = _ANY.namespace, _ANY.reservation_namespace, _ANY.release
"""KAI's namespace, the namespace of its reservation pods and its Helm release."""
