"""Show the pins of the catalogue, and add what servers publish for items without one ('nox -s pins').

A pin never changes by itself: what a server publishes today and differs from the pin is an error (exit code 1). Review
each new pin against a second source before committing it. Options: ``--offline`` asks no server.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from urllib3.exceptions import HTTPError  # noqa: TID251 - the errors of lab.tools.http

from lab.config import LabSpec
from lab.errors import LabError, Unavailable
from lab.supply import catalogue as table
from lab.supply import download
from lab.supply.catalogue import Item
from lab.supply.download import redirected
from lab.supply.registry import is_local
from lab.tools import http

CATALOGUE = Path(table.__file__).with_name("catalogue.toml")
ARCHITECTURES = ("amd64", "arm64")
_SECONDS = 30
_REGISTRY = {"docker.io": "registry-1.docker.io"}
_MANIFESTS = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        "oci.image.index.v1",
        "oci.image.manifest.v1",
        "docker.distribution.manifest.list.v2",
        "docker.distribution.manifest.v2",
    )
)
_CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


@dataclass(frozen=True)
class Row:
    """An address of the catalogue, its pin (empty without one), and how to ask its server."""

    key: str
    pin: str
    published: Callable[[], str]


def rows(kubernetes: str) -> list[Row]:
    """Every file and image that a lab of that Kubernetes version may take from a server."""
    found = []
    for architecture in ARCHITECTURES:
        for binary in (catalogue := table.load(kubernetes, architecture)).binaries.values():
            if binary.release:
                pin = catalogue.pin(Item("binary", binary.name), binary.version)
                found.append(Row(binary.release, pin, partial(checksum, binary.release, binary.checksum)))
            found += [Row(url, catalogue.pins.get(url, ""), partial(checksum, url, "")) for url in binary.packages]
    catalogue = table.load(kubernetes)
    for name, chart in catalogue.charts.items():
        item = Item("chart", name)
        address, pin = catalogue.address(item, chart.version), catalogue.pin(item, chart.version)
        reference = f"{address.removeprefix('oci://')}:{chart.version}"
        oci = address.startswith("oci://")
        ask = partial(chart_digest, reference) if oci else partial(checksum, address, "")
        found.append(Row(f"oci://{reference}" if oci else address, pin, ask))
    for image in catalogue.images.values():
        if not image.local:
            pin = catalogue.pin(Item("image", image.reference), "")
            found.append(Row(image.reference, pin, partial(image_digest, image.reference)))
    return found


def checksum(url: str, published: str) -> str:
    """The checksum that a server publishes, or that of its file. Raises LabError."""
    with tempfile.TemporaryDirectory() as folder:
        path = download.fetch(published or url, Path(folder, "file"))
        if not published:
            return digest_of(path.read_bytes()).removeprefix("sha256:")
        found = re.match(r"\s*([0-9a-f]{64})\b", path.read_text(errors="replace"))
        if found is None:
            raise Unavailable(f"{published} has no sha256 checksum")
        return found[1]


def digest_of(body: bytes) -> str:
    """The digest of a manifest, computed and not read from a header."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def image_digest(reference: str) -> str:
    """The digest of an image's tag. Raises LabError."""
    return digest_of(manifest(reference))


def chart_digest(reference: str) -> str:
    """sha256 of the archive of a chart in an OCI registry. Raises LabError."""
    layers = json.loads(manifest(reference)).get("layers", [])
    found = [layer["digest"] for layer in layers if layer["mediaType"] == _CHART]
    if len(found) != 1:
        raise Unavailable(f"{reference} is not a Helm chart")
    return str(found[0]).removeprefix("sha256:")


def manifest(reference: str) -> bytes:
    """The manifest of a tag, with an anonymous token if the registry wants one. Raises LabError."""
    host, _, rest = reference.partition("/")
    name, _, tag = rest.rpartition(":")
    scheme = "http" if is_local(host) else "https"
    url = f"{scheme}://{_REGISTRY.get(host, host)}/v2/{name}/manifests/{tag}"
    status, headers, body = get(url, {"Accept": _MANIFESTS})
    if status == 401:
        fields = dict(re.findall(r'(\w+)="([^"]*)"', headers.get("WWW-Authenticate", "")))
        scope = fields.get("scope", f"repository:{name}:pull")
        _, _, answer = get(f"{fields.get('realm', '')}?service={fields.get('service', '')}&scope={scope}", {})
        token = json.loads(answer)
        bearer = f"Bearer {token.get('token') or token.get('access_token')}"
        status, headers, body = get(url, {"Accept": _MANIFESTS, "Authorization": bearer})
    if status != 200:
        raise Unavailable(f"{url}: the server answered {status}")
    return body


def get(url: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and body of an answer, after a redirect such as registry.k8s.io's. Raises LabError."""
    try:
        with http.get(url, _SECONDS, os.environ, headers) as response:
            location = response.get_redirect_location()
            if not location:
                return response.status, response.headers, response.read()
        accepted = {name: value for name, value in headers.items() if name != "Authorization"}
        with http.get(redirected(url, location), _SECONDS, os.environ, accepted) as response:
            return response.status, response.headers, response.read()
    except (HTTPError, ValueError) as error:
        raise Unavailable(f"{url}: {http.reason(error)}") from error


def compare(found: list[Row], *, offline: bool) -> tuple[dict[str, str], list[str]]:
    """New pins by key, and one line for each row."""
    new: dict[str, str] = {}
    lines = []
    for row in found:
        published, why = "", "not asked"
        if not offline:
            try:
                published, why = row.published(), ""
            except (LabError, ValueError) as error:
                why = error.what if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
        if row.pin:
            state = "ok" if published == row.pin else "DIFFERS" if published else "pinned"
            detail = f"its server has {published}, the pin is {row.pin}" if state == "DIFFERS" else why
        else:
            state, detail = ("new", published) if published else ("missing", why)
            if published:
                new[row.key] = published
        lines.append(f"{state:8} {row.key}{f': {detail}' if detail else ''}")
    return new, lines


def added(text: str, new: Mapping[str, str]) -> str:
    """The catalogue's text with new pins at its end, where the table of pins is."""
    return text.rstrip("\n") + "\n" + "".join(f'"{key}" = "{value}"\n' for key, value in new.items())


def main(arguments: list[str]) -> int:
    """Print all pins, write new ones, and return the exit code."""
    wanted = rows(LabSpec().cluster.kubernetes)
    new, lines = compare(wanted, offline="--offline" in arguments)
    known = table.load(LabSpec().cluster.kubernetes).pins
    others = [f"{'pinned':8} {key}: of another version" for key in known if key not in {row.key for row in wanted}]
    print("\n".join([*lines, *others]))
    missing = sum(line.startswith("missing") for line in lines)
    differs = sum(line.startswith("DIFFERS") for line in lines)
    print(f"{len(known)} pins, {len(new)} new, {missing} missing, {differs} different")
    if new:
        CATALOGUE.write_text(added(CATALOGUE.read_text(), new))
        print(f"confirm each new pin by a second source before you commit {CATALOGUE}")
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
