"""Redaction of credentials in objects and text, in the forms that clusters and vCluster store them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from lab.objects.redact import REDACTED, redact, redact_text

Json = dict[str, Any]

TOKEN = ".".join(("eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ", "eyJzdWIiOiJzeXN0ZW06c2EifQ", "c2lnbmF0dXJl-_x"))
BODY = "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSk"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def pem(kind: str) -> str:
    return f"-----BEGIN {kind}-----\n{BODY}\n-----END {kind}-----\n"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


KEY = encoded(pem("RSA PRIVATE KEY"))
KUBECONFIG = f"""apiVersion: v1
kind: Config
clusters:
- name: team
  cluster: {{server: "https://127.0.0.1:31001", certificate-authority-data: {encoded(pem("CERTIFICATE"))}}}
users:
- name: team
  user:
    client-certificate-data: {encoded(pem("CERTIFICATE") + "mine")}
    client-key-data: {KEY}
    token: {TOKEN}
"""


def synced_pod() -> Json:
    """A pod as vCluster's syncer writes it onto the host (0.36.1)."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "cuda-x-team-x-ml",
            "namespace": "vcluster-ml",
            "labels": {"vcluster.loft.sh/managed-by": "ml", "vcluster.loft.sh/namespace": "team"},
            "annotations": {
                "vcluster.loft.sh/object-name": "cuda",
                "vcluster.loft.sh/service-account-name": "default",
                "vcluster.loft.sh/token-abcdefgh": TOKEN,
                "vcluster.loft.sh/token-9x8y7z6w": "not-a-jwt-but-a-secret-all-the-same",
                "gpu-fraction": "0.5",
            },
        },
        "spec": {
            "containers": [{"name": "main", "env": [{"name": "AUTH", "value": f"Bearer {TOKEN}"}]}],
            "volumes": [{"name": "kube-api-access", "projected": {"sources": [{"downwardAPI": {}}]}}],
        },
    }


def test_tokens_of_a_synced_pod_are_redacted_and_the_rest_stays() -> None:
    copy = redact(synced_pod())
    assert TOKEN.rpartition(".")[2] not in json.dumps(copy)
    assert "all-the-same" not in json.dumps(copy)
    notes = copy["metadata"]["annotations"]
    assert notes["vcluster.loft.sh/token-abcdefgh"] == notes["vcluster.loft.sh/token-9x8y7z6w"] == REDACTED
    assert notes["vcluster.loft.sh/object-name"] == "cuda"
    assert notes["gpu-fraction"] == "0.5"
    assert copy["spec"]["containers"][0]["env"] == [{"name": "AUTH", "value": f"Bearer {REDACTED}"}]
    assert copy["spec"]["volumes"] == synced_pod()["spec"]["volumes"]


def kubeconfig_secret() -> Json:
    """vCluster's Secret ``vc-<name>``."""
    data = {"config": KUBECONFIG, "client-key": pem("RSA PRIVATE KEY"), "token": TOKEN}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "vc-ml", "namespace": "vcluster-ml"},
        "type": "Opaque",
        "data": {key: encoded(value) for key, value in data.items()},
    }


def test_values_of_a_secret_are_redacted_and_keys_stay() -> None:
    copy = redact(kubeconfig_secret())
    assert copy["data"] == dict.fromkeys(("config", "client-key", "token"), REDACTED)
    assert copy["metadata"] == kubeconfig_secret()["metadata"]


def test_secrets_without_a_kind_in_a_list_are_redacted() -> None:
    bare = {key: value for key, value in kubeconfig_secret().items() if key not in ("apiVersion", "kind")}
    copy = redact({"apiVersion": "v1", "kind": "SecretList", "items": [bare]})
    assert copy["items"][0]["data"] == dict.fromkeys(bare["data"], REDACTED)
    assert copy["items"][0]["type"] == "Opaque"


@pytest.mark.parametrize("data", [None, {}])
def test_empty_secret_stays_empty(data: object) -> None:
    assert redact({"kind": "Secret", "data": data}) == {"kind": "Secret", "data": data}


def test_last_applied_configuration_of_a_secret_is_redacted() -> None:
    secret = {"kind": "Secret", "stringData": {"password": "hunter2-hunter2"}}
    doc = {**secret, "metadata": {"annotations": {APPLIED: json.dumps(secret), "keep": "me"}}}
    assert redact(doc) == {
        "kind": "Secret",
        "stringData": {"password": REDACTED},
        "metadata": {"annotations": {APPLIED: REDACTED, "keep": "me"}},
    }


def test_pod_templates_and_lists_are_redacted() -> None:
    deployment = {"kind": "Deployment", "spec": {"template": synced_pod()}}
    copy = redact({"kind": "List", "items": [deployment, kubeconfig_secret()]})
    text = json.dumps(copy)
    assert TOKEN not in text
    assert encoded(KUBECONFIG) not in text


def test_kubeconfig_object_is_redacted() -> None:
    user = {"client-certificate-data": "Y2VydA==", "client-key-data": "a2V5", "token": "opaque", "username": "me"}
    copy = redact({"kind": "Config", "users": [{"name": "team", "user": user}]})
    hidden = dict.fromkeys(("client-certificate-data", "client-key-data", "token"), REDACTED)
    assert copy["users"][0]["user"] == {**hidden, "username": "me"}


def test_kubeconfig_in_a_config_map_is_redacted() -> None:
    copy = redact({"kind": "ConfigMap", "data": {"kubeconfig": KUBECONFIG, "other": "value"}})
    text = copy["data"]["kubeconfig"]
    for secret in (TOKEN, KEY, encoded(pem("CERTIFICATE") + "mine")):
        assert secret not in text
    assert "https://127.0.0.1:31001" in text
    assert "client-key-data: <redacted>" in text
    assert copy["data"]["other"] == "value"


def test_original_objects_are_unchanged() -> None:
    pod, secret = synced_pod(), kubeconfig_secret()
    redact([pod, secret])
    assert (pod, secret) == (synced_pod(), kubeconfig_secret())


# --- text


@pytest.mark.parametrize(
    "kind", ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY"]
)
def test_plain_and_base64_private_keys_are_redacted(kind: str) -> None:
    text = redact_text(f"key:\n{pem(kind)}\npacked {encoded(pem(kind))} end")
    assert BODY not in text
    assert encoded(pem(kind))[30:60] not in text
    assert text.endswith("end")


def test_key_without_an_end_is_redacted() -> None:
    text = redact_text(f"log\n{pem('RSA PRIVATE KEY').partition('-----END')[0]}")
    assert BODY not in text
    assert text.startswith("log\n-----BEGIN RSA PRIVATE KEY-----")


def test_certificates_are_not_redacted() -> None:
    text = f"{pem('CERTIFICATE')} {encoded(pem('CERTIFICATE'))}"
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "line",
    [
        f"authorization: Bearer {TOKEN}",
        f'"vcluster.loft.sh/token-abcdefgh": "{TOKEN}"',
        "    client-key-data: QUJDREVGR0hJSktMTU5PUA==",
        '{"user": {"token": "opaque-0123456789"}}',
        '{\\"password\\": \\"opaque-0123456789\\"}',
        '"HTTPS_PROXY=http://user:opaque-0123456789@proxy.example:3128",',
        "https://opaque-0123456789@index.example/simple",
        "helm registry login --username u --password opaque-0123456789",
        "kubeadm join 10.0.0.1:6443 --token=opaque-0123456789",
        '{"auths": {"ghcr.io": {"auth": "opaque-0123456789"}}}',
        "DB_PASSWORD=opaque-0123456789",
    ],
)
def test_credentials_in_lines_are_redacted(line: str) -> None:
    text = redact_text(line)
    assert REDACTED in text
    assert not any(part in text for part in (TOKEN.rpartition(".")[2], "QUJDREVG", "opaque-0123456789"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Pod team/cuda: Running; ready on w1",
        "token-abcdefgh",
        "eyJ.not.one",
        "a: b",
        "docker.io/org/app@sha256:0123456789abcdef https://host.example/path@1 --token-ttl 24h0m0s",
        "oci://ghcr.io/org/chart:1 me@example.org",
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert redact_text(text) == text


def test_redaction_is_idempotent() -> None:
    once = redact_text(KUBECONFIG)
    assert redact_text(once) == once
    assert redact(redact(kubeconfig_secret())) == redact(kubeconfig_secret())
