"""Plugins and actions of KAI's scheduler that are on by default, events, webhooks of the operator, and messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.kai_facts.chart import scheduler_config
from scripts.kai_facts.go_source import GoFile, GoSource

_SHARD = "pkg/apis/kai/v1"
_OPERATOR = "pkg/operator/operands/scheduler"
_PRIORITIES = re.compile(r"default(Plugin|Action)Priorities = map\[string\]int\{(.*?)^\}", re.DOTALL | re.MULTILINE)
_NUMBERED = re.compile(r'"([\w-]+)":\s*(\d+)')
_OPTION = re.compile(r'\{Name: "([\w-]+)"|Name:\s+"([\w-]+)"')
_ACTIONS = re.compile(
    r'actions\s*:=\s*\[\]string\{(.*?)\}|append\(actions, (?:\[\]string\{)?([^)}]*)|actions: "?([\w, ]+)'
)
_IN_YAML = re.compile(r"- name: ([\w-]+)")
_REGISTERED = re.compile(r'RegisterPluginBuilder\("([\w-]+)"')
_NOT_BINPACK = {"gpuspread"}
_EVENT = re.compile(r'Event(?:Type)?(?:Normal|Warning),\s*("\w+"|\w+(?:\.\w+)?)')
_REASON = re.compile(r'\breason\s*:?=\s*"(\w+)"')
_KUBERNETES = {"v1.PodReasonUnschedulable": "Unschedulable"}
_HOOK_NAME = re.compile(r"(mutat|validat)(?:ing|or)Webhook\w*?(Name|Prefix)$", re.IGNORECASE)
_HOOK_VERSIONS = re.compile(r"func (Queue|PodGroup)ValidatedVersions\(\) \[\]string \{\s*return \[\]string\{([^}]*)\}")
_LITERAL = re.compile(r'"((?:\\.|[^"\\\n])+)"')
_VERB = re.compile(r"%[+#]?[\d.]*[a-zA-Z]")


def scheduling(root: Path, source: GoSource) -> dict[str, dict[str, bool]]:
    """``plugins`` and ``actions``: name → whether it is on with the default placement, binpack."""
    found: dict[str, dict[str, bool]] = {"plugins": {}, "actions": {}}
    shard = _text(source, _SHARD)
    for kind, body in _PRIORITIES.findall(shard):
        ordered = sorted(_NUMBERED.findall(body), key=lambda one: -int(one[1]))
        found[f"{kind.lower()}s"] = {name: name not in _NOT_BINPACK for name, _ in ordered}
    if found["plugins"]:
        return found
    # the chart's own configuration counts where the chart deploys the scheduler (before 0.10)
    text = scheduler_config(root) or _text(source, _OPERATOR)
    # the operator builds the name gpupack from the placement strategy
    names = _IN_YAML.findall(text) or [*(one or other for one, other in _OPTION.findall(text)), "gpupack"]
    registered = set(_REGISTERED.findall(_text(source, "pkg/scheduler/plugins")))
    names = [name for name in names if name in registered]
    actions = [name for groups in _ACTIONS.findall(text) for part in groups for name in re.findall(r"[a-z]+", part)]
    found["plugins"] = dict.fromkeys(names, True)
    found["actions"] = dict.fromkeys(actions, True)
    return found


def events(source: GoSource) -> dict[str, list[str]]:
    """Reasons of events: the components that write them."""
    found: dict[str, set[str]] = {}
    for file in source.files:
        if not re.search(r"\.(?:Annotated)?Eventf?\(", file.text):
            continue
        names = {_resolved(source, file, name) for name in _EVENT.findall(file.text)}
        for name in {*names, *_REASON.findall(file.text)} - {""}:
            found.setdefault(name, set()).update(source.users_of(file.folder))
    return {name: sorted(components) for name, components in found.items()}


def webhooks(source: GoSource) -> set[tuple[str, str]]:
    """Webhook configurations that the operator creates: the name, and mutating or validating."""
    versions = {kind.lower(): re.findall(r'"(\w+)"', body) for kind, body in _HOOK_VERSIONS.findall(_all(source))}
    found = set()
    for (folder, name), value in source.constants.items():
        match = _HOOK_NAME.search(name)
        if match is None or not folder.startswith(("pkg/operator", "pkg/apis/kai")):
            continue
        kind = "podgroup" if "podgroup" in value else "queue"
        ends = versions.get(kind, []) if match[2].lower() == "prefix" else [""]
        found |= {(f"{value}{end}", f"{match[1].lower()}ing") for end in ends}
    return found


def images(source: GoSource) -> set[str]:
    """Image names that the operator defaults to."""
    return {
        value
        for (folder, name), value in source.constants.items()
        if folder.startswith("pkg/apis/kai/v1/") and name.lower().endswith("imagename")
    }


def messages(source: GoSource, rules: Mapping[str, Any]) -> set[str]:
    """The rules of ``kailab explain`` whose pattern matches a text of the sources.

    A verb of a format, such as %s, counts as a number or as a word.
    """
    texts = set()
    for raw in set(_LITERAL.findall(_all(source))):
        text = json.loads(f'"{raw}"') if re.fullmatch(r'(?:[^\\]|\\["\\nrt])*', raw) else raw
        texts |= {_VERB.sub(sample, text) for sample in ("1", "word")}
    whole = "\n".join(sorted(texts))
    return {name for name, row in rules.items() if any(re.search(one, whole) for one in row["patterns"])}


def _resolved(source: GoSource, file: GoFile, name: str) -> str:
    if name.startswith('"'):
        return name.strip('"')
    package, _, bare = name.rpartition(".")
    folder = file.imports.get(package, "") if package else file.folder
    return source.constants.get((folder, bare), _KUBERNETES.get(name, ""))


def _text(source: GoSource, folder: str) -> str:
    return "\n".join(file.text for file in source.files if file.folder == folder)


def _all(source: GoSource) -> str:
    return "\n".join(file.text for file in source.files)
