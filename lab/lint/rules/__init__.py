"""The rules, a file a theme; importing them enters them into the registry."""

import lab.lint.rules.containers
import lab.lint.rules.fractions
import lab.lint.rules.keys
import lab.lint.rules.namespaces
import lab.lint.rules.placement
import lab.lint.rules.queue_choice
import lab.lint.rules.queues
import lab.lint.rules.values  # noqa: F401 - enters the rules
