"""The probe as an OpenAI-compatible server: layout of responses, echoed prompts, and invalid requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.probe_world import Json, Served

pytestmark = [pytest.mark.processes("probe"), pytest.mark.loopback]

MODEL = "Qwen/Qwen2.5-1.5B-Instruct"
REQUEST = {"model": MODEL, "prompt": "San Francisco is a", "max_tokens": 7, "temperature": 0}

STRANGE = 'grüße 😀 \u2028 "quoted" back\\slash \u0000 \u001f'

RESPONSE = """{
    "id": "cmpl-173532a758894deeae63d0a073c53289", "object": "text_completion", "created": 1763393534,
    "model": "Qwen/Qwen2.5-1.5B-Instruct",
    "choices": [{"index": 0, "text": " city in the state of California,", "logprobs": null, "finish_reason": "length",
        "stop_reason": null, "token_ids": null, "prompt_logprobs": null, "prompt_token_ids": null}],
    "service_tier": null, "system_fingerprint": null,
    "usage": {"prompt_tokens": 4, "total_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": null},
    "kv_transfer_params": null
}"""
"""vLLM's response to ``REQUEST``, from OpenNebula's guide to KAI."""


def shape(value: object) -> object:
    """Keys and types of a JSON value, without ``system_fingerprint``, which may be null."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items() if key != "system_fingerprint"}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value).__name__


def test_completion_has_the_layout_of_vllm(server: Served) -> None:
    answer = server.post("/v1/completions", REQUEST)
    assert shape(answer) == shape(json.loads(RESPONSE))
    assert answer["id"].startswith("cmpl-")
    assert answer["model"] == MODEL
    assert answer["system_fingerprint"] == "kailab-probe"
    (choice,) = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("San Francisco is a", "stop")
    assert answer["usage"] == {
        "prompt_tokens": 4,
        "completion_tokens": 4,
        "total_tokens": 8,
        "prompt_tokens_details": None,
    }
    assert server.post("/v1/completions", REQUEST)["id"] != answer["id"]


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "text", "reason"),
    [
        ("a b c", 2, "a b", "length"),
        ("a b c", 3, "a b c", "stop"),
        ("  a \t b\n", None, "a \t b", "stop"),
        ("w " * 20, None, "w " * 15 + "w", "length"),
        ("", None, "", "stop"),
        (STRANGE, 9, STRANGE, "stop"),
    ],
)
def test_completion_repeats_up_to_max_tokens(
    server: Served, prompt: str, max_tokens: int | None, text: str, reason: str
) -> None:
    (choice,) = server.post("/v1/completions", {"prompt": prompt, "max_tokens": max_tokens})["choices"]
    assert (choice["text"], choice["finish_reason"]) == (text, reason)


def test_each_prompt_of_a_list_has_a_choice(server: Served) -> None:
    answer = server.post("/v1/completions", {"prompt": ["a b", "c"], "max_tokens": 1})
    assert [(choice["index"], choice["text"]) for choice in answer["choices"]] == [(0, "a"), (1, "c")]
    assert answer["usage"]["prompt_tokens"] == 3
    assert answer["usage"]["completion_tokens"] == 2


def test_chat_repeats_the_last_message(server: Served) -> None:
    parts = [{"type": "text", "text": "b c "}, {"type": "image_url", "image_url": {"url": "x"}}, {"text": "d"}]
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": parts}]
    answer = server.post("/v1/chat/completions", {"messages": messages, "max_completion_tokens": 2})
    assert answer["object"] == "chat.completion"
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": "b c"}
    assert choice["finish_reason"] == "length"
    assert answer["usage"]["prompt_tokens"] == 4
    whole = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "w " * 50}]})
    assert whole["usage"]["completion_tokens"] == 50


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("completions", {}, "prompt"),
        ("completions", {"prompt": 7}, "prompt"),
        ("completions", {"prompt": []}, "prompt"),
        ("completions", {"prompt": [1, 2]}, "prompt"),
        ("completions", {"prompt": ["a", 2, "b"]}, "prompt"),
        ("completions", {"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ("completions", {"prompt": "a", "max_tokens": -1}, "max_tokens"),
        ("completions", {"prompt": "a", "max_tokens": 1.5}, "max_tokens"),
        ("completions", {"prompt": "a", "max_tokens": "7"}, "max_tokens"),
        ("completions", {"prompt": "a", "max_tokens": 10**20}, "max_tokens"),
        ("completions", {"prompt": "a", "stream": True}, "stream"),
        ("completions", {"prompt": "a", "model": 1}, "model"),
        ("chat/completions", {"prompt": "a"}, "messages"),
        ("chat/completions", {"messages": []}, "messages"),
        ("chat/completions", {"messages": ["a"]}, "messages"),
        ("chat/completions", {"messages": [{"role": "user"}]}, "messages"),
        ("chat/completions", {"messages": [{"content": 1}]}, "messages"),
        ("completions", ["a"], None),
        ("completions", "a", None),
    ],
)
def test_invalid_request_is_refused_with_its_parameter(
    server: Served, path: str, body: Json, param: str | None
) -> None:
    error = server.post(f"/v1/{path}", body, status=400)["error"]
    assert (error["param"], error["type"], error["code"]) == (param, "BadRequestError", 400)
    assert error["message"]


@pytest.mark.parametrize(
    "body", [{"prompt": "a", "stream": False}, {"prompt": "a", "stream": None, "max_tokens": None}]
)
def test_null_and_default_parameters_are_accepted(server: Served, body: Json) -> None:
    assert server.post("/v1/completions", body)["choices"][0]["text"] == "a"


@pytest.mark.parametrize(
    ("option", "name"),
    [((MODEL,), MODEL), (("--model", MODEL), MODEL), ((MODEL, "--served-model-name=short"), "short")],
)
def test_server_serves_its_configured_model(program: Path, option: tuple[str, ...], name: str) -> None:
    server = Served(program, *option, "--gpu-memory-utilization=0.7", "--max-model-len", "2048")
    try:
        _, listed = server.ask("GET", "/v1/models")
        assert [model["id"] for model in json.loads(listed)["data"]] == [name]
        assert server.post("/v1/completions", {"prompt": "a"})["model"] == name
        assert server.post("/v1/completions", {"prompt": "a", "model": name})["model"] == name
        error = server.post("/v1/completions", {"prompt": "a", "model": "another"}, status=404)["error"]
        assert error == {
            "message": "The model `another` does not exist.",
            "type": "NotFoundError",
            "param": "model",
            "code": 404,
        }
    finally:
        server.close()


@pytest.mark.parametrize(
    "text",
    [
        '{"prompt":"a"}',
        ' \t\r\n{ "prompt" : "a" } ',
        '{"a":[1,-0,0.5,1e9,1E-9,-1.5e+3],"prompt":"a"}',
        '{"a":{"b":[{},[],"",true,false,null]},"prompt":"a"}',
        '{"prompt":"\\u0061"}',
        '{"pro\\u006dpt":"a"}',
        '{"prompt":"x","prompt":"a"}',
        "[" * 60 + "]" * 60,
        "",
        '{"prompt":"\\ud83d\\ude00"}',
        '{"prompt":"\\/\\b\\f\\n\\r\\t\\"\\\\"}',
        '{"prompt":"a",}',
        '{"prompt":"a"',
        '{"prompt":"a"}}',
        '{"prompt":"a"} x',
        "{prompt:1}",
        "{'prompt':'a'}",
        '{"prompt":01}',
        '{"prompt":+1}',
        '{"prompt":.5}',
        '{"prompt":1.}',
        '{"prompt":1e}',
        '{"prompt":-}',
        '{"prompt":"a\nb"}',
        '{"prompt":"\\x"}',
        '{"prompt":"\\u12"}',
        '{"prompt":tru}',
        '{"prompt":nulll}',
        '{"prompt" "a"}',
        '{"prompt":}',
        "{,}",
        "[1 2]",
        "[,]",
        "[1,]",
        '"',
        "{",
        "[",
        "\x00",
        "truefalse",
    ],
)
def test_json_is_accepted_exactly_where_python_accepts_it(server: Served, text: str) -> None:
    try:
        json.loads(text)
        valid = True
    except ValueError:
        valid = False
    _, response = server.ask("POST", "/v1/completions", text.encode())
    assert ("is not JSON" in response.decode()) == (not valid)


@pytest.mark.parametrize("body", [b'{"prompt":"\xff"}', b'{"prompt":"\xc0\xaf"}', b'{"prompt":"\xed\xa0\x80"}'])
def test_body_that_is_not_utf_8_is_refused(server: Served, body: bytes) -> None:
    answer, response = server.ask("POST", "/v1/completions", body)
    assert answer.status == 400
    assert json.loads(response)["error"]["message"] == "the body is not JSON"
