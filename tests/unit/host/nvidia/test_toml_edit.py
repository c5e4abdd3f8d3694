"""Setting one key of a TOML file without changing any other byte."""

from __future__ import annotations

import tomllib

import pytest

from lab.errors import HostNotReady
from lab.host.nvidia.toml_edit import value_of, with_value

PACKAGED = """#accept-nvidia-visible-devices-as-volume-mounts = false
disable-require = false
supported-driver-capabilities = "compat32,compute"

[nvidia-container-cli]
ldconfig = "@/sbin/ldconfig.real"   # Ubuntu's

[nvidia-container-runtime]
#debug = "/var/log/nvidia-container-runtime.log"
log-level = "info"
mode = "auto"
runtimes = [
  "runc",
  "crun",
]

[nvidia-container-runtime.modes.cdi]
default-kind = "nvidia.com/gpu"
"""
RUNTIME = "nvidia-container-runtime"


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("", "accept-nvidia-visible-devices-as-volume-mounts", True),
        ("", "disable-require", True),
        (RUNTIME, "mode", "cdi"),
        (RUNTIME, "runtimes", ["/opt/runc", "runc"]),
        (RUNTIME, "new", "text"),
        ("a.table", "of-its-own", ["x"]),
        ("nvidia-container-runtime.modes.cdi", "default-kind", "other/kind"),
    ],
)
@pytest.mark.parametrize("text", [PACKAGED, PACKAGED.rstrip("\n"), "", "# only a comment"])
def test_only_the_given_key_is_set(text: str, table: str, key: str, value: bool | str | list[str]) -> None:
    changed = with_value(text, table, key, value)
    assert value_of(changed, table, key) == value
    expected = tomllib.loads(text)
    parent = expected
    for word in filter(None, table.split(".")):
        parent = parent.setdefault(word, {})
    parent[key] = value
    assert tomllib.loads(changed) == expected
    comments = [line.partition("#")[2] for line in text.splitlines() if "#" in line]
    assert [line.partition("#")[2] for line in changed.splitlines() if "#" in line] == comments


def test_only_the_line_of_the_key_differs() -> None:
    changed = with_value(PACKAGED, RUNTIME, "mode", "cdi").splitlines()
    before = PACKAGED.splitlines()
    assert [line for line in changed if line not in before] == ['mode = "cdi"']
    assert len(changed) == len(before)


def test_text_with_the_value_is_unchanged() -> None:
    text = PACKAGED.replace('mode = "auto"', "mode='auto'  # mine")
    assert with_value(text, RUNTIME, "mode", "auto") == text


def test_invalid_toml_is_refused() -> None:
    with pytest.raises(HostNotReady, match="not TOML"):
        with_value("a = = b", "", "a", value=True)


def test_inline_table_is_changed_in_place() -> None:
    before = f'{RUNTIME} = {{ mode = "auto", log-level = "info" }}  # mine\n'
    assert with_value(before, RUNTIME, "mode", "cdi") == before.replace("auto", "cdi")


def test_comment_after_the_value_is_kept() -> None:
    assert with_value('mode = "auto"  # mine\n', "", "mode", "cdi") == 'mode = "cdi"  # mine\n'


@pytest.mark.parametrize("text", [f"{RUNTIME} = 1\n", f"[[{RUNTIME}]]\nmode = 'auto'\n"])
def test_non_table_is_refused(text: str) -> None:
    with pytest.raises(HostNotReady, match=f"{RUNTIME} is not a table"):
        with_value(text, RUNTIME, "mode", "cdi")
