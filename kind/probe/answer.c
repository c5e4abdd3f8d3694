/* Which request gets which answer, and the answer's head. */
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static int facts_route(const struct request *request, struct text *body)
{
    (void)request;
    facts(body);
    return 200;
}

static int health(const struct request *request, struct text *body)
{
    (void)request;
    text_format(body, "{\"status\": \"ok\"}");
    return 200;
}

static const struct {
    const char *path;
    int post;
    route *answer;
} routes[] = {
    {"/", 0, facts_route},
    {"/facts", 0, facts_route},
    {"/health", 0, health},
    {"/v1/models", 0, echo_models},
    {"/v1/completions", 1, echo_completion},
    {"/v1/chat/completions", 1, echo_chat},
};

static const struct {
    int status;
    const char *reason, *type, *why;
} statuses[] = {
    {200, "OK", "", ""},
    {400, "Bad Request", "BadRequestError", "this is no HTTP/1.1 request"},
    {404, "Not Found", "NotFoundError", "there is nothing here"},
    {405, "Method Not Allowed", "MethodNotAllowedError", "this path takes another method"},
    {408, "Request Timeout", "RequestTimeoutError", "the request did not come in time"},
    {411, "Length Required", "LengthRequiredError", "a body needs a Content-Length"},
    {413, "Content Too Large", "ContentTooLargeError", "the body is larger than 1 MiB"},
    {431, "Request Header Fields Too Large", "HeadTooLargeError", "the head is larger than 16 KiB"},
    {500, "Internal Server Error", "InternalServerError", "out of memory"},
    {505, "HTTP Version Not Supported", "VersionError", "HTTP/1.0 and HTTP/1.1 are spoken here"},
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static size_t entry(int status)
{
    size_t i;

    for (i = 0; i < COUNT(statuses) - 1 && statuses[i].status != status; i++)
        ;
    return i;
}

int answer_error(struct text *body, int status, const char *param, const char *format, ...)
{
    char message[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    text_format(body, "{\"error\": {\"message\": ");
    text_quote(body, message);
    text_format(body, ", \"type\": \"%s\", \"param\": ", statuses[entry(status)].type);
    text_quote(body, param);
    text_format(body, ", \"code\": %d}}", status);
    return status;
}

/* Does what the request asks for; allow gets the methods of a path that takes others. */
static int follow(const struct request *request, struct text *body, const char **allow)
{
    size_t i;

    for (i = 0; i < COUNT(routes); i++) {
        if (!slice_is(request->path, routes[i].path))
            continue;
        if (routes[i].post ? slice_is(request->method, "POST")
                           : slice_is(request->method, "GET") || slice_is(request->method, "HEAD"))
            return routes[i].answer(request, body);
        *allow = routes[i].post ? "POST" : "GET, HEAD";
        return 405;
    }
    return 404;
}

void answer(const struct request *request, int status, struct text *out)
{
    struct text body = {0};
    const char *allow = NULL;
    char date[64];
    time_t now = time(NULL);

    if (status == 200)
        status = follow(request, &body, &allow);
    if (body.failed) {
        text_free(&body);
        status = 500;
    }
    if (body.length == 0)
        answer_error(&body, status, NULL, "%s", statuses[entry(status)].why);
    text_add(&body, "\n", 1);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime(&now));
    text_format(out, "HTTP/1.1 %d %s\r\nDate: %s\r\nServer: kailab-probe\r\n", status, statuses[entry(status)].reason,
                date);
    if (allow != NULL)
        text_format(out, "Allow: %s\r\n", allow);
    text_format(out, "Content-Type: application/json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", body.length);
    if (!slice_is(request->method, "HEAD"))
        text_add(out, body.bytes, body.length);
    text_free(&body);
}
