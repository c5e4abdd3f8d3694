/* HTTP/1.x requests (RFC 9112), from the bytes that have come so far. */
#include "probe.h"

#include <string.h>
#include <strings.h>

enum {
    WHOLE = 200,
    BAD_REQUEST = 400,
    LENGTH_REQUIRED = 411,
    CONTENT_TOO_LARGE = 413,
    HEAD_TOO_LARGE = 431,
    VERSION_NOT_SUPPORTED = 505
};

/* What the head says beside its first line. */
struct fields {
    int hosts, chunked, has_length;
    size_t length;
};

int slice_is(struct slice slice, const char *word)
{
    return slice.length == strlen(word) && memcmp(slice.at, word, slice.length) == 0;
}

static int is_named(struct slice slice, const char *name)
{
    return slice.length == strlen(name) && strncasecmp(slice.at, name, slice.length) == 0;
}

/* Whether all of it may stand in a method or in a field's name. */
static int is_token(struct slice slice)
{
    size_t i;

    for (i = 0; i < slice.length; i++) {
        char c = slice.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
            && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL))
            return 0;
    }
    return slice.length > 0;
}

/* The line that begins at *at, without its end; *at goes behind it. Returns 0 where there is no whole line. */
static int next_line(const char **at, const char *end, struct slice *line)
{
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));

    if (stop == NULL)
        return 0;
    line->at = *at;
    line->length = (size_t)(stop - *at);
    if (line->length > 0 && stop[-1] == '\r')
        line->length--;
    *at = stop + 1;
    return 1;
}

/* Cuts off what stands before the blank. */
static struct slice word(struct slice *line)
{
    const char *blank = memchr(line->at, ' ', line->length);
    struct slice found = {line->at, blank != NULL ? (size_t)(blank - line->at) : line->length};
    size_t used = found.length + (blank != NULL);

    line->at += used;
    line->length -= used;
    return found;
}

/* The path of "/path?query", or of "http://host/path". */
static int read_target(struct slice target, struct slice *path)
{
    const char *end = target.at + target.length, *stop;

    if (target.length > 7 && strncasecmp(target.at, "http://", 7) == 0)
        target.at = memchr(target.at + 7, '/', target.length - 7);
    if (target.at == NULL || target.at == end || (*target.at != '/' && !slice_is(target, "*")))
        return BAD_REQUEST;
    stop = memchr(target.at, '?', (size_t)(end - target.at));
    path->at = target.at;
    path->length = (size_t)((stop != NULL ? stop : end) - target.at);
    return 0;
}

static int read_first_line(struct slice line, struct request *request, int *minor)
{
    struct slice target;

    request->method = word(&line);
    target = word(&line);
    if (!is_token(request->method) || line.length != 8 || memcmp(line.at, "HTTP/", 5) != 0 || line.at[6] != '.')
        return BAD_REQUEST;
    if (line.at[5] != '1')
        return VERSION_NOT_SUPPORTED;
    *minor = line.at[7] - '0';
    return read_target(target, &request->path);
}

/* Several lengths are fine as long as they are the same. */
static int read_length(struct slice value, struct fields *fields)
{
    size_t length = 0, i;

    for (i = 0; i < value.length; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return BAD_REQUEST;
        if (length <= BODY_MOST) /* more is too much in any case */
            length = length * 10 + (size_t)(value.at[i] - '0');
    }
    if (value.length == 0 || (fields->has_length && fields->length != length))
        return BAD_REQUEST;
    fields->has_length = 1;
    fields->length = length;
    return 0;
}

static int read_field(struct slice line, struct request *request, struct fields *fields)
{
    const char *colon = memchr(line.at, ':', line.length);
    struct slice name = {line.at, colon != NULL ? (size_t)(colon - line.at) : 0}, value;

    if (!is_token(name) || memchr(line.at, '\0', line.length) != NULL)
        return BAD_REQUEST;
    value.at = colon + 1;
    value.length = line.length - name.length - 1;
    for (; value.length > 0 && (*value.at == ' ' || *value.at == '\t'); value.length--)
        value.at++;
    while (value.length > 0 && (value.at[value.length - 1] == ' ' || value.at[value.length - 1] == '\t'))
        value.length--;
    if (is_named(name, "host"))
        fields->hosts++;
    else if (is_named(name, "transfer-encoding"))
        fields->chunked = 1;
    else if (is_named(name, "expect"))
        request->expects_continue = is_named(value, "100-continue");
    else if (is_named(name, "content-length"))
        return read_length(value, fields);
    return 0;
}

int request_read(const char *bytes, size_t length, struct request *request)
{
    const char *at = bytes, *end = bytes + (length < HEAD_MOST ? length : HEAD_MOST);
    struct fields fields = {0};
    struct slice line;
    int status = 0, minor = 0, whole = 0;

    memset(request, 0, sizeof *request);
    while (at < end && (*at == '\r' || *at == '\n')) /* empty lines before a request are let pass */
        at++;
    if (next_line(&at, end, &line))
        status = read_first_line(line, request, &minor);
    else
        line.length = 0;
    while (status == 0 && line.length > 0 && next_line(&at, end, &line)) {
        if (line.length > 0)
            status = read_field(line, request, &fields);
        else
            whole = 1;
    }
    if (status != 0)
        return status;
    if (!whole)
        return length >= HEAD_MOST ? HEAD_TOO_LARGE : 0;
    if (fields.hosts > 1 || (fields.hosts == 0 && minor > 0) || (fields.chunked && fields.has_length))
        return BAD_REQUEST;
    if (fields.chunked)
        return LENGTH_REQUIRED;
    if (fields.length > BODY_MOST)
        return CONTENT_TOO_LARGE;
    request->head = (size_t)(at - bytes);
    request->body.at = at;
    request->body.length = fields.length;
    return length - request->head >= fields.length ? WHOLE : 0;
}
