/*
 * probe: tells from inside a container what it sees of GPUs, and answers like an OpenAI-compatible server, by
 * repeating what it was asked. One process, one thread; what it needs of NVML it takes from the
 * libnvidia-ml.so.1 that the container runtime put into the container.
 */
#ifndef PROBE_H
#define PROBE_H

#include <stddef.h>

/* text.c: text that grows. Once memory has run out it stays as it is, and failed says so. */
struct text {
    char *bytes;
    size_t length, room;
    int failed;
};

void text_add(struct text *text, const char *bytes, size_t length);
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As a JSON string; bytes that are no UTF-8 become U+FFFD. text_quote takes NULL for null. */
void text_string(struct text *text, const char *bytes, size_t length);
void text_quote(struct text *text, const char *string);
void text_free(struct text *text);
/* How many bytes the first character has; 0 when they are no UTF-8. */
size_t utf8_length(const char *at, const char *end);

/* json.c: one value inside a text that was checked. */
struct json {
    const char *at, *end;
};

/* Returns 0, or -1 when the text is not one JSON value. */
int json_check(const char *bytes, size_t length, struct json *whole);
/* One of { [ " 0 t f n: the first character of the value, with 0 for any number. */
char json_kind(struct json value);
/* The member of an object, the last one of that name; returns whether there is one. null counts as none. */
int json_member(struct json object, const char *name, struct json *value);
/* The next item of an array behind *at, which starts as NULL; returns whether there is one. */
int json_next(struct json array, const char **at, struct json *item);
void json_decode(struct json string, struct text *into);
/* A whole number; returns 0, or -1 when it is none or too large. */
int json_whole(struct json number, long *value);

/* request.c: what a client sends. */
#define HEAD_MOST (16 * 1024)
#define BODY_MOST (1024 * 1024)

struct slice {
    const char *at;
    size_t length;
};

struct request {
    struct slice method, path; /* the path without the query */
    size_t head;               /* bytes up to the body; 0 as long as they are not all there */
    struct slice body;
    int expects_continue;
};

int slice_is(struct slice slice, const char *word);
/* Returns 0 as long as bytes are missing, 200 when the request is whole, else the status of the refusal. */
int request_read(const char *bytes, size_t length, struct request *request);

/* answer.c: the whole answer, head and body. status: of a refusal; 200 to do what the request asks. */
void answer(const struct request *request, int status, struct text *out);

/* Each route writes its JSON into body and returns the status. */
typedef int route(const struct request *request, struct text *body);

/* The body of an error in the form that OpenAI's clients know; returns the status. */
int answer_error(struct text *body, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* echo.c: the routes under /v1. The model that is served; NULL: any that is asked for. */
extern const char *echo_model;
route echo_models, echo_completion, echo_chat;

/* facts.c, gpus.c */
void facts(struct text *into);
/* Members "nvml" and "devices" of an object, without a comma around them. */
void gpus(struct text *into);

/* server.c: serves until the process is ended; returns the exit code when it cannot begin. port 0: any. */
int serve(const char *host, unsigned int port);

#endif
