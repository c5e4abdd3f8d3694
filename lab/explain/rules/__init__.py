"""The rules that read objects, one file per theme; those that match messages are rows of the .toml files."""

import lab.explain.rules.binding
import lab.explain.rules.components
import lab.explain.rules.containers
import lab.explain.rules.groups
import lab.explain.rules.nodes
import lab.explain.rules.pods
import lab.explain.rules.queues
import lab.explain.rules.reservation
import lab.explain.rules.spec
import lab.explain.rules.tenants
import lab.explain.rules.volumes  # noqa: F401 - registers the rules
