/*
 * An OpenAI-compatible server without a model: it repeats the prompt, word by word, up to max_tokens. The answers
 * have the members of vLLM's; a token is a word. What shapes a model's answer, such as temperature, changes nothing
 * here. "system_fingerprint" says who answered.
 */
#include "probe.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#define FINGERPRINT "kailab-probe"
#define COMPLETION_TOKENS 16 /* OpenAI's default of max_tokens for completions; chats have none */

const char *echo_model;

/* What a request asks for, beside its prompt. */
struct wish {
    struct json body;
    struct text model;
    long most; /* tokens; -1: no limit */
};

/* What was said and what came back, in tokens. */
struct usage {
    long prompt, completion;
};

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The first words of a text, up to most (-1: all); *count gets how many there are, *cut whether any are left. */
static struct slice words(struct slice text, long most, long *count, int *cut)
{
    size_t at = 0, first, last;

    *count = 0;
    while (at < text.length && is_blank(text.at[at]))
        at++;
    for (first = last = at; at < text.length && (most < 0 || *count < most); (*count)++) {
        while (at < text.length && !is_blank(text.at[at]))
            at++;
        last = at;
        while (at < text.length && is_blank(text.at[at]))
            at++;
    }
    *cut = at < text.length;
    return (struct slice){text.at + first, last - first};
}

static void write_head(struct text *body, const char *prefix, const char *object, const struct wish *wish)
{
    unsigned char random[16] = {0};
    size_t i;

    /* Ids only have to differ: what is left zero when the kernel has no random bytes yet does no harm. */
    if (getrandom(random, sizeof random, GRND_NONBLOCK) < 0)
        memcpy(random, &(struct timespec){.tv_sec = time(NULL)}, sizeof(time_t));
    text_format(body, "{\"id\": \"%s-", prefix);
    for (i = 0; i < sizeof random; i++)
        text_format(body, "%02x", random[i]);
    text_format(body, "\", \"object\": \"%s\", \"created\": %lld, \"model\": ", object, (long long)time(NULL));
    text_string(body, wish->model.bytes, wish->model.length);
    text_format(body, ", \"choices\": [");
}

static int write_tail(struct text *body, const struct usage *usage)
{
    text_format(body, "], \"service_tier\": null, \"system_fingerprint\": \"" FINGERPRINT "\", \"usage\": "
                      "{\"prompt_tokens\": %ld, \"total_tokens\": %ld, \"completion_tokens\": %ld, "
                      "\"prompt_tokens_details\": null}, \"kv_transfer_params\": null}",
                usage->prompt, usage->prompt + usage->completion, usage->completion);
    return 200;
}

/* The model, the limit, and no streaming. Returns 0, or the status of the error in body. */
static int read_wish(const struct request *request, struct text *body, struct wish *wish)
{
    static const char *const limits[] = {"max_completion_tokens", "max_tokens"};
    struct json value;
    size_t i;

    if (json_check(request->body.at, request->body.length, &wish->body) != 0)
        return answer_error(body, 400, NULL, "the body is not JSON");
    if (json_kind(wish->body) != '{')
        return answer_error(body, 400, NULL, "the body is no JSON object");
    if (json_member(wish->body, "stream", &value) && json_kind(value) != 'f')
        return answer_error(body, 400, "stream", "the probe answers at once: leave stream out");
    if (json_member(wish->body, "model", &value)) {
        if (json_kind(value) != '"')
            return answer_error(body, 400, "model", "model must be a string");
        json_decode(value, &wish->model);
        if (echo_model != NULL && !slice_is((struct slice){wish->model.bytes, wish->model.length}, echo_model))
            return answer_error(body, 404, "model", "The model `%.100s` does not exist.", wish->model.bytes);
    } else {
        text_format(&wish->model, "%s", echo_model != NULL ? echo_model : "probe");
    }
    for (i = 0; i < sizeof limits / sizeof *limits; i++)
        if (json_member(wish->body, limits[i], &value)) {
            if (json_whole(value, &wish->most) != 0 || wish->most < 1)
                return answer_error(body, 400, limits[i], "%s must be a whole number above 0", limits[i]);
            return 0;
        }
    return 0;
}

/* One choice of a completion. */
static void complete(struct text *body, struct json prompt, long index, long most, struct usage *usage)
{
    struct text said = {0};
    struct slice whole, kept;
    long count;
    int cut;

    json_decode(prompt, &said);
    whole = (struct slice){said.bytes, said.length};
    words(whole, -1, &count, &cut);
    usage->prompt += count;
    kept = words(whole, most, &count, &cut);
    usage->completion += count;
    text_format(body, "%s{\"index\": %ld, \"text\": ", index > 0 ? ", " : "", index);
    text_string(body, kept.at, kept.length);
    text_format(body, ", \"logprobs\": null, \"finish_reason\": \"%s\", \"stop_reason\": null, \"token_ids\": null, "
                      "\"prompt_logprobs\": null, \"prompt_token_ids\": null}", cut ? "length" : "stop");
    body->failed |= said.failed;
    text_free(&said);
}

static int completion(const struct request *request, struct text *body, struct wish *wish)
{
    struct usage usage = {0};
    struct json prompt, item;
    const char *at = NULL;
    long index = 0;
    int status = read_wish(request, body, wish);

    if (status != 0)
        return status;
    if (!json_member(wish->body, "prompt", &prompt))
        return answer_error(body, 400, "prompt", "there is no prompt");
    if (json_kind(prompt) == '[')
        while (json_next(prompt, &at, &item))
            index = json_kind(item) == '"' && index >= 0 ? index + 1 : -1;
    else
        index = json_kind(prompt) == '"' ? 1 : -1;
    if (index < 1)
        return answer_error(body, 400, "prompt", "prompt must be a string, or strings: token ids mean nothing here");
    write_head(body, "cmpl", "text_completion", wish);
    if (json_kind(prompt) == '"')
        complete(body, prompt, 0, wish->most, &usage);
    else
        for (at = NULL, index = 0; json_next(prompt, &at, &item); index++)
            complete(body, item, index, wish->most, &usage);
    return write_tail(body, &usage);
}

/* The text of a message's content: a string, or the parts of type text. Returns 0, or -1. */
static int read_content(struct json message, struct text *into)
{
    struct json content, part, text;
    const char *at = NULL;

    text_add(into, "", 0);
    if (json_kind(message) != '{' || !json_member(message, "content", &content))
        return -1;
    if (json_kind(content) == '"') {
        json_decode(content, into);
        return 0;
    }
    if (json_kind(content) != '[')
        return -1;
    while (json_next(content, &at, &part))
        if (json_kind(part) == '{' && json_member(part, "text", &text) && json_kind(text) == '"')
            json_decode(text, into);
    return 0;
}

static int chat(const struct request *request, struct text *body, struct wish *wish, struct text *said)
{
    struct usage usage = {0};
    struct json messages, message;
    struct slice kept;
    const char *at = NULL;
    long count;
    int cut, status = read_wish(request, body, wish);

    if (status != 0)
        return status;
    if (!json_member(wish->body, "messages", &messages) || json_kind(messages) != '[')
        return answer_error(body, 400, "messages", "there are no messages");
    while (json_next(messages, &at, &message)) { /* all count as prompt, and the last one is repeated */
        text_free(said);
        if (read_content(message, said) != 0)
            return answer_error(body, 400, "messages", "a message needs a content of text");
        words((struct slice){said->bytes, said->length}, -1, &count, &cut);
        usage.prompt += count;
    }
    if (at == NULL)
        return answer_error(body, 400, "messages", "there are no messages");
    kept = words((struct slice){said->bytes, said->length}, wish->most, &usage.completion, &cut);
    write_head(body, "chatcmpl", "chat.completion", wish);
    text_format(body, "{\"index\": 0, \"message\": {\"role\": \"assistant\", \"content\": ");
    text_string(body, kept.at, kept.length);
    text_format(body, "}, \"logprobs\": null, \"finish_reason\": \"%s\", \"stop_reason\": null}",
                cut ? "length" : "stop");
    return write_tail(body, &usage);
}

int echo_completion(const struct request *request, struct text *body)
{
    struct wish wish = {.most = COMPLETION_TOKENS};
    int status = completion(request, body, &wish);

    body->failed |= wish.model.failed;
    text_free(&wish.model);
    return status;
}

int echo_chat(const struct request *request, struct text *body)
{
    struct wish wish = {.most = -1};
    struct text said = {0};
    int status = chat(request, body, &wish, &said);

    body->failed |= wish.model.failed | said.failed;
    text_free(&wish.model);
    text_free(&said);
    return status;
}

int echo_models(const struct request *request, struct text *body)
{
    (void)request;
    text_format(body, "{\"object\": \"list\", \"data\": [{\"id\": ");
    text_quote(body, echo_model != NULL ? echo_model : "probe");
    text_format(body, ", \"object\": \"model\", \"created\": %lld, \"owned_by\": \"" FINGERPRINT "\"}]}",
                (long long)time(NULL));
    return 200;
}
