// An OpenAI-compatible server without a model: it repeats the prompt, up to max_tokens words. Responses have the
// members of vLLM's; a token is a word. Sampling parameters, such as temperature, have no effect.
// "system_fingerprint" identifies the probe.
package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	fingerprint      = "kailab-probe"
	completionTokens = 16 // OpenAI's default of max_tokens for completions
	chatTokens       = -1 // no limit: chats have no default
)

var token = regexp.MustCompile(`\S+`)

type echo struct {
	model string // the served model; empty: any model that a request names
}

// request is the body of a completion or chat. null members count as absent.
type request struct {
	Model               string `json:"model"`
	Stream              bool   `json:"stream"`
	MaxTokens           *int   `json:"max_tokens"`
	MaxCompletionTokens *int   `json:"max_completion_tokens"`
	Prompt              any    `json:"prompt"`
	Messages            []struct {
		Content any `json:"content"`
	} `json:"messages"`
}

func badRequest(param any, message string) error {
	return apiError{http.StatusBadRequest, param, message}
}

// parse returns the request in a body and its token limit, by default defaultLimit.
func (e echo) parse(body []byte, defaultLimit int) (req request, limit int, err error) {
	problem := json.Unmarshal(body, &req)
	var typeError *json.UnmarshalTypeError
	switch {
	case errors.As(problem, &typeError) && typeError.Field == "":
		return req, 0, badRequest(nil, "the body must be a JSON object")
	case errors.As(problem, &typeError):
		param, _, _ := strings.Cut(typeError.Field, ".")
		return req, 0, badRequest(param, fmt.Sprintf("%s cannot be a %s", typeError.Field, typeError.Value))
	case problem != nil || !utf8.Valid(body): // encoding/json replaces invalid bytes with U+FFFD
		return req, 0, badRequest(nil, "the body is not JSON")
	case req.Stream:
		return req, 0, badRequest("stream", "streaming is not supported: omit stream")
	case req.Model != "" && e.model != "" && req.Model != e.model:
		message := fmt.Sprintf("The model `%.100s` does not exist.", req.Model)
		return req, 0, apiError{http.StatusNotFound, "model", message}
	}
	req.Model = or(req.Model, or(e.model, "probe"))
	name, wanted := "max_completion_tokens", req.MaxCompletionTokens
	if wanted == nil {
		name, wanted = "max_tokens", req.MaxTokens
	}
	switch {
	case wanted == nil:
		return req, defaultLimit, nil
	case *wanted < 1:
		return req, 0, badRequest(name, name+" must be at least 1")
	}
	return req, *wanted, nil
}

func (e echo) models() object {
	return object{"object": "list", "data": []object{{
		"id": or(e.model, "probe"), "object": "model", "created": time.Now().Unix(), "owned_by": fingerprint,
	}}}
}

func (e echo) completion(body []byte) (object, error) {
	req, limit, err := e.parse(body, completionTokens)
	if err != nil {
		return nil, err
	}
	prompts, isList := req.Prompt.([]any)
	if !isList {
		prompts = []any{req.Prompt}
	}
	var choices []object
	var promptTokens, outputTokens int
	for index, prompt := range prompts {
		text, isText := prompt.(string)
		if !isText {
			return nil, badRequest("prompt", "prompt must be a string or a list of strings; token ids are not supported")
		}
		output, reason := repeat(text, limit)
		promptTokens, outputTokens = promptTokens+tokens(text), outputTokens+tokens(output)
		choices = append(choices, object{
			"index": index, "text": output, "logprobs": nil, "finish_reason": reason, "stop_reason": nil,
			"token_ids": nil, "prompt_logprobs": nil, "prompt_token_ids": nil,
		})
	}
	if len(choices) == 0 {
		return nil, badRequest("prompt", "prompt must not be empty")
	}
	return response("cmpl-", "text_completion", req.Model, choices, promptTokens, outputTokens), nil
}

// chat counts all messages as prompt and repeats the last one.
func (e echo) chat(body []byte) (object, error) {
	req, limit, err := e.parse(body, chatTokens)
	if err != nil {
		return nil, err
	}
	if len(req.Messages) == 0 {
		return nil, badRequest("messages", "messages must not be empty")
	}
	var last string
	var promptTokens int
	for _, message := range req.Messages {
		text, isText := textOf(message.Content)
		if !isText {
			return nil, badRequest("messages", "content of a message must be text")
		}
		last, promptTokens = text, promptTokens+tokens(text)
	}
	output, reason := repeat(last, limit)
	choice := object{
		"index": 0, "message": object{"role": "assistant", "content": output}, "logprobs": nil,
		"finish_reason": reason, "stop_reason": nil,
	}
	return response("chatcmpl-", "chat.completion", req.Model, []object{choice}, promptTokens, tokens(output)), nil
}

// textOf returns the text of a message's content: a string, or the parts of type text.
func textOf(content any) (string, bool) {
	parts, isList := content.([]any)
	if !isList {
		text, isText := content.(string)
		return text, isText
	}
	var texts []string
	for _, part := range parts {
		part, _ := part.(object)
		if text, isText := part["text"].(string); isText {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ""), true
}

func tokens(text string) int {
	return len(token.FindAllStringIndex(text, -1))
}

// repeat returns the first words of a text, up to limit (-1: all), and the finish reason.
func repeat(text string, limit int) (output, reason string) {
	found := token.FindAllStringIndex(text, limit)
	if len(found) > 0 {
		output = text[found[0][0]:found[len(found)-1][1]]
	}
	if len(found) < tokens(text) {
		return output, "length"
	}
	return output, "stop"
}

func response(prefix, kind, model string, choices []object, promptTokens, outputTokens int) object {
	return object{
		"id": prefix + rand.Text(), "object": kind, "created": time.Now().Unix(), "model": model, "choices": choices,
		"service_tier": nil, "system_fingerprint": fingerprint, "kv_transfer_params": nil,
		"usage": object{
			"prompt_tokens": promptTokens, "completion_tokens": outputTokens,
			"total_tokens": promptTokens + outputTokens, "prompt_tokens_details": nil,
		},
	}
}
