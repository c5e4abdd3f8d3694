"""``kailab lint``: reports what will go wrong with manifests before they are applied."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypedDict

import typer

from lab.cli.completion import complete_kai, complete_tenant
from lab.cli.explain_rule import ExplainRule, RuleList, explain_rule
from lab.cli.lazy import command_app
from lab.cli.options import AsJson, File, Name, Profile, Settings, exclusive, print_json, spec_of
from lab.config import LabSpec
from lab.errors import NoLab, SpecError
from lab.findings import Finding
from lab.kai import line_of
from lab.lint import RULES, LintContext, read_all
from lab.lint import lint as lint_documents
from lab.lint.context import lint_context
from lab.session.session import Session, name_of
from lab.ui.findings import render_by_file, render_rule_list, render_versions
from lab.ui.lint_formats import github, sarif
from lab.ui.text_writer import TextWriter

app = command_app()

FORMATS = ("text", "json", "sarif", "github")


class Linted(TypedDict):
    """The findings for one version of KAI."""

    findings: tuple[Finding, ...]


class LintedVersion(Linted):
    """Those for one of several versions."""

    kai: str


class LintedVersions(TypedDict):
    """The findings for several versions of KAI."""

    versions: list[LintedVersion]


@app.command(epilog="Examples: kailab lint pod.yaml · helm template … | kailab lint - · kailab lint docs/ --kai 0.16.8")
def lint(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE...", help="YAML, Markdown or text files, folders; - is stdin.")
    ] = None,
    kai: Annotated[
        str | None,
        typer.Option(
            "--kai", help="KAI version, or several: 0.14.7,0.16.8. Default: the lab's.", autocompletion=complete_kai
        ),
    ] = None,
    layout: Annotated[str, typer.Option("--format", help="text, json, sarif or github.")] = "text",
    empty: Annotated[bool, typer.Option("--allow-empty", help="Files without a manifest are no error.")] = False,
    anywhere: Annotated[bool, typer.Option("--anywhere", help="For no lab: queues and GPUs are unknown.")] = False,
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant", help="For this tenant: its own KAI version, queues and nodes.", autocompletion=complete_tenant
        ),
    ] = None,
    values: Annotated[
        list[Path] | None, typer.Option("--values", metavar="FILE", help="Helm values of KAI's chart; repeatable.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules instead.")] = False,
    rule: ExplainRule = None,
    file: File = None,
    profile: Profile = None,
    settings: Settings = None,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Report what will go wrong with manifests on this KAI version. Exit code 12 if a finding is an error.

    The lab is given by -f, --profile or --name; default: the running lab, else the lab file here or the profile demo.
    """
    if rule is not None:
        explain_rule(rule, as_json)
        return
    if rules:
        if as_json:
            print_json(RuleList(rules=tuple(RULES.values())))
        else:
            render_rule_list(f"{len(RULES)} rules", tuple(RULES.values()), "kailab lint")
        return
    if not files and not values:
        raise SpecError("no file to lint", fix="kailab lint FILE..., or kailab lint --rules")
    exclusive({"--anywhere": anywhere}, {"--tenant": tenant})
    if layout not in FORMATS:
        raise SpecError(f"unknown format {layout!r}", fix=f"use one of: {', '.join(FORMATS)}")
    documents = read_all(files or [], empty=empty or bool(values))
    documents += tuple(replace(one, values="file") for one in read_all(values or [], empty=not values))
    found: dict[str, tuple[Finding, ...]] = {}
    warnings: list[str] = []
    spec = LabSpec() if anywhere else _spec(file, profile, settings, name)
    for version in (kai or "").split(","):
        version = version.strip()
        if anywhere:
            setting = LintContext(line_of(version or spec.kai.version))
        else:
            setting = lint_context(spec, tenant or "", version)
        warnings.append(setting.line.warning)
        found[setting.line.version] = lint_documents(documents, setting)
    for warning in filter(None, warnings):
        TextWriter(stderr=True).marked("warn", warning)
    _print(found, "json" if as_json else layout)
    if any(one.severity == "error" for findings in found.values() for one in findings):
        raise typer.Exit(12)


def _print(found: Mapping[str, tuple[Finding, ...]], layout: str) -> None:
    (version, findings), several = next(iter(found.items())), len(found) > 1
    if several:
        named = (replace(one, what=f"KAI {kai}: {one.what}") for kai, each in found.items() for one in each)
        findings = tuple(named)
    if layout == "json":
        rows = [LintedVersion(kai=kai, findings=each) for kai, each in found.items()]
        print_json(LintedVersions(versions=rows) if several else Linted(findings=findings))
    elif layout == "sarif":
        typer.echo(json.dumps(sarif(findings), indent=2))
    elif layout == "github":
        typer.echo(github(findings), nl=False)
    elif several:
        render_versions(found)
    else:
        render_by_file(findings, version)


def _spec(file: Path | None, profile: str | None, settings: list[str] | None, name: str | None) -> LabSpec:
    """The lab file that is described, else the running lab's, else the default one."""
    if not (file or profile or settings):
        try:
            return Session.attached(name_of(name)).spec
        except NoLab:
            if name:
                raise
    return spec_of(file, profile, settings)
