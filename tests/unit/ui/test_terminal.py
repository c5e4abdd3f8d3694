"""Text that terminals and logs can show."""

from __future__ import annotations

import pytest

from lab.ui.terminal import Terminal

STATES = ("waiting", "running", "changed", "unchanged", "failed", "cancelled", "blocked", "fail", "next")


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1", "cp437", "no-such-encoding", "ANSI_X3.4-1968"])
def test_glyphs_are_encodable_in_any_encoding(encoding: str) -> None:
    terminal = Terminal(encoding)
    texts = [terminal.glyph(state) for state in STATES]
    texts += [terminal.spinner(n / 10) for n in range(10)]
    texts += [terminal.dot, terminal.ellipsis, *terminal.bar(0.5, 10), terminal.clean("a → b … ✓ 漢字 \udcff")]
    for text in texts:
        text.encode("ascii" if encoding == "no-such-encoding" else encoding)
    assert terminal.clean("a → b …") == "a -> b ..."


def test_utf8_keeps_text_except_lone_surrogates() -> None:
    terminal = Terminal("UTF-8")
    assert terminal.clean("a → 漢字") == "a → 漢字"
    assert terminal.clean("\udcff") == "?"
    assert terminal.glyph("changed") == "✓"


@pytest.mark.parametrize(
    "dirty",
    [
        "\x1b[31mred\x1b[0m text",
        "red\r\n  text",
        "\x1b]0;title\x07red text",
        "\x1b]8;;http://x\x1b\\red text",
        "red\x00\x08\ttext\x7f",
        "red\u2028text",
    ],
)
def test_foreign_output_becomes_one_clean_line(dirty: str) -> None:
    assert Terminal().clean(dirty).split() == ["red", "text"]
    assert not set(Terminal().clean(dirty)) & set("\x1b\r\n\x00\x07\x08\x7f\u2028")


def test_indent_is_kept_on_request() -> None:
    assert Terminal().clean("\tdeep  ", indent=True) == "    deep"
    assert Terminal().clean("\tdeep  ") == "deep"


@pytest.mark.parametrize(("fraction", "filled"), [(0, 0), (0.5, 5), (1, 10), (4, 10), (-1, 0)])
def test_bar_has_the_requested_width(fraction: float, filled: int) -> None:
    full, empty = Terminal().bar(fraction, 10)
    assert (len(full), len(full + empty)) == (filled, 10)
