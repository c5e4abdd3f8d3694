// An OpenAI-compatible server without a model: it repeats the prompt, word by word, up to max_tokens. The answers
// have the members of vLLM's; a token is a word. What shapes a model's answer, such as temperature, changes nothing
// here. "system_fingerprint" says who answered.
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
	chatTokens       = -1 // chats have none
)

var token = regexp.MustCompile(`\S+`)

type echo struct {
	model string // the one that is served; empty: any that is asked for
}

// wish is what a request asks for. A member that is null counts as left out.
type wish struct {
	Model               string `json:"model"`
	Stream              bool   `json:"stream"`
	MaxTokens           *int   `json:"max_tokens"`
	MaxCompletionTokens *int   `json:"max_completion_tokens"`
	Prompt              any    `json:"prompt"`
	Messages            []struct {
		Content any `json:"content"`
	} `json:"messages"`
}

func bad(param any, message string) error {
	return refusal{http.StatusBadRequest, param, message}
}

// read gives what a request asks for, and how many tokens at most.
func (e echo) read(body []byte, otherwise int) (asked wish, most int, err error) {
	problem := json.Unmarshal(body, &asked)
	var mistaken *json.UnmarshalTypeError
	switch {
	case errors.As(problem, &mistaken) && mistaken.Field == "":
		return asked, 0, bad(nil, "the body is no JSON object")
	case errors.As(problem, &mistaken):
		param, _, _ := strings.Cut(mistaken.Field, ".")
		return asked, 0, bad(param, fmt.Sprintf("%s cannot be a %s", mistaken.Field, mistaken.Value))
	case problem != nil || !utf8.Valid(body): // encoding/json puts U+FFFD in place of other bytes
		return asked, 0, bad(nil, "the body is not JSON")
	case asked.Stream:
		return asked, 0, bad("stream", "the probe answers at once: leave stream out")
	case asked.Model != "" && e.model != "" && asked.Model != e.model:
		message := fmt.Sprintf("The model `%.100s` does not exist.", asked.Model)
		return asked, 0, refusal{http.StatusNotFound, "model", message}
	}
	asked.Model = or(asked.Model, or(e.model, "probe"))
	name, limit := "max_completion_tokens", asked.MaxCompletionTokens
	if limit == nil {
		name, limit = "max_tokens", asked.MaxTokens
	}
	switch {
	case limit == nil:
		return asked, otherwise, nil
	case *limit < 1:
		return asked, 0, bad(name, name+" must be a whole number above 0")
	}
	return asked, *limit, nil
}

func (e echo) models() object {
	return object{"object": "list", "data": []object{{
		"id": or(e.model, "probe"), "object": "model", "created": time.Now().Unix(), "owned_by": fingerprint,
	}}}
}

func (e echo) completion(body []byte) (object, error) {
	asked, most, err := e.read(body, completionTokens)
	if err != nil {
		return nil, err
	}
	prompts, several := asked.Prompt.([]any)
	if !several {
		prompts = []any{asked.Prompt}
	}
	var choices []object
	var heard, given int
	for index, prompt := range prompts {
		text, isText := prompt.(string)
		if !isText {
			return nil, bad("prompt", "prompt must be a string, or strings: token ids mean nothing here")
		}
		said, reason := repeat(text, most)
		heard, given = heard+tokens(text), given+tokens(said)
		choices = append(choices, object{
			"index": index, "text": said, "logprobs": nil, "finish_reason": reason, "stop_reason": nil,
			"token_ids": nil, "prompt_logprobs": nil, "prompt_token_ids": nil,
		})
	}
	if len(choices) == 0 {
		return nil, bad("prompt", "there is no prompt")
	}
	return answer("cmpl-", "text_completion", asked.Model, choices, heard, given), nil
}

// All messages count as prompt, and the last one is repeated.
func (e echo) chat(body []byte) (object, error) {
	asked, most, err := e.read(body, chatTokens)
	if err != nil {
		return nil, err
	}
	if len(asked.Messages) == 0 {
		return nil, bad("messages", "there are no messages")
	}
	var last string
	var heard int
	for _, message := range asked.Messages {
		text, isText := textOf(message.Content)
		if !isText {
			return nil, bad("messages", "a message needs a content of text")
		}
		last, heard = text, heard+tokens(text)
	}
	said, reason := repeat(last, most)
	choice := object{
		"index": 0, "message": object{"role": "assistant", "content": said}, "logprobs": nil,
		"finish_reason": reason, "stop_reason": nil,
	}
	return answer("chatcmpl-", "chat.completion", asked.Model, []object{choice}, heard, tokens(said)), nil
}

// textOf gives the text of a message's content: a string, or the parts of type text.
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

// repeat gives the first words of a text, and why it ends there. most -1: all.
func repeat(text string, most int) (said, reason string) {
	found := token.FindAllStringIndex(text, most)
	if len(found) > 0 {
		said = text[found[0][0]:found[len(found)-1][1]]
	}
	if len(found) < tokens(text) {
		return said, "length"
	}
	return said, "stop"
}

func answer(prefix, kind, model string, choices []object, heard, given int) object {
	return object{
		"id": prefix + rand.Text(), "object": kind, "created": time.Now().Unix(), "model": model, "choices": choices,
		"service_tier": nil, "system_fingerprint": fingerprint, "kv_transfer_params": nil,
		"usage": object{
			"prompt_tokens": heard, "completion_tokens": given, "total_tokens": heard + given,
			"prompt_tokens_details": nil,
		},
	}
}
