"""The rules, one file per theme; importing them registers them."""

import lab.lint.rules.structure  # isort: skip - its rules come first
import lab.lint.rules.containers
import lab.lint.rules.fractions
import lab.lint.rules.gangs
import lab.lint.rules.keys
import lab.lint.rules.namespaces
import lab.lint.rules.placement
import lab.lint.rules.queue_choice
import lab.lint.rules.queues
import lab.lint.rules.values  # noqa: F401 - registers the rules
