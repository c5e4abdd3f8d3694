/* JSON (RFC 8259), read where it stands: a text is checked once, and values are then looked up in it. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH 64

static const char *blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

/* Four hexadecimal digits; -1 where there are none. */
static long hex(const char *at, const char *end)
{
    static const char all[] = "0123456789abcdefABCDEF";
    long value = 0;
    int i;

    if (end - at < 4)
        return -1;
    for (i = 0; i < 4; i++) {
        const char *digit = at[i] != '\0' ? strchr(all, at[i]) : NULL;

        if (digit == NULL)
            return -1;
        value = value * 16 + (digit - all < 16 ? digit - all : digit - all - 6);
    }
    return value;
}

/* The character that an escape means, and where it ends; NULL when it is none. at: behind the backslash. */
static const char *escape(const char *at, const char *end, long *character)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *name = at < end && *at != '\0' ? strchr(names, *at) : NULL;
    long low;

    if (name != NULL) {
        *character = meant[name - names];
        return at + 1;
    }
    if (at >= end || *at != 'u' || (*character = hex(at + 1, end)) < 0)
        return NULL;
    at += 5;
    if (*character < 0xD800 || *character > 0xDFFF)
        return at;
    if (*character > 0xDBFF || end - at < 6 || at[0] != '\\' || at[1] != 'u')
        return NULL;
    low = hex(at + 2, end);
    if (low < 0xDC00 || low > 0xDFFF)
        return NULL;
    *character = 0x10000 + ((*character - 0xD800) << 10) + (low - 0xDC00);
    return at + 6;
}

static const char *skip_string(const char *at, const char *end)
{
    long character;
    size_t size;

    for (at++; at < end && *at != '"'; at += size) {
        if (*at == '\\') {
            const char *next = escape(at + 1, end, &character);

            if (next == NULL)
                return NULL;
            size = (size_t)(next - at);
        } else if ((unsigned char)*at < 0x20 || (size = utf8_length(at, end)) == 0) {
            return NULL;
        }
    }
    return at < end ? at + 1 : NULL;
}

static const char *digits(const char *at, const char *end)
{
    const char *first = at;

    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at > first ? at : NULL;
}

static const char *skip_number(const char *at, const char *end)
{
    if (*at == '-')
        at++;
    at = at < end && *at == '0' ? at + 1 : digits(at, end);
    if (at != NULL && at < end && *at == '.')
        at = digits(at + 1, end);
    if (at != NULL && at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        at = digits(at, end);
    }
    return at;
}

static const char *skip_word(const char *at, const char *end, const char *word)
{
    size_t length = strlen(word);

    return (size_t)(end - at) >= length && memcmp(at, word, length) == 0 ? at + length : NULL;
}

/* Behind the value that begins here; NULL when none does. */
static const char *skip(const char *at, const char *end, int depth)
{
    char close;

    if (at >= end || depth > DEPTH)
        return NULL;
    switch (*at) {
    case '"':
        return skip_string(at, end);
    case 't':
        return skip_word(at, end, "true");
    case 'f':
        return skip_word(at, end, "false");
    case 'n':
        return skip_word(at, end, "null");
    case '{':
    case '[':
        break;
    default:
        return skip_number(at, end);
    }
    close = *at == '{' ? '}' : ']';
    at = blanks(at + 1, end);
    if (at < end && *at == close)
        return at + 1;
    for (;;) {
        if (close == '}') {
            if (at >= end || *at != '"' || (at = skip_string(at, end)) == NULL)
                return NULL;
            at = blanks(at, end);
            if (at >= end || *at != ':')
                return NULL;
            at = blanks(at + 1, end);
        }
        if ((at = skip(at, end, depth + 1)) == NULL)
            return NULL;
        at = blanks(at, end);
        if (at < end && *at == close)
            return at + 1;
        if (at >= end || *at != ',')
            return NULL;
        at = blanks(at + 1, end);
    }
}

int json_check(const char *bytes, size_t length, struct json *whole)
{
    const char *end = bytes + length;

    whole->at = blanks(bytes, end);
    whole->end = skip(whole->at, end, 0);
    return whole->end != NULL && blanks(whole->end, end) == end ? 0 : -1;
}

char json_kind(struct json value)
{
    return *value.at == '-' || (*value.at >= '0' && *value.at <= '9') ? '0' : *value.at;
}

static int is_named(const char *at, const char *end, const char *name)
{
    struct json string = {at, end};
    struct text decoded = {0};
    int same;

    json_decode(string, &decoded);
    same = !decoded.failed && decoded.length == strlen(name) && memcmp(decoded.bytes, name, decoded.length) == 0;
    text_free(&decoded);
    return same;
}

int json_member(struct json object, const char *name, struct json *value)
{
    const char *at = blanks(object.at + 1, object.end), *key, *key_end;
    int found = 0;

    while (*at != '}') {
        key = at;
        key_end = skip_string(key, object.end);
        at = blanks(blanks(key_end, object.end) + 1, object.end);
        if (is_named(key, key_end, name)) {
            value->at = at;
            value->end = skip(at, object.end, 0);
            found = *at != 'n';
        }
        at = blanks(skip(at, object.end, 0), object.end);
        if (*at == ',')
            at = blanks(at + 1, object.end);
    }
    return found;
}

int json_next(struct json array, const char **at, struct json *item)
{
    const char *next = blanks(*at == NULL ? array.at + 1 : *at, array.end);

    if (*at != NULL && *next == ',')
        next = blanks(next + 1, array.end);
    if (*next == ']')
        return 0;
    item->at = next;
    item->end = *at = skip(next, array.end, 0);
    return 1;
}

void json_decode(struct json string, struct text *into)
{
    const char *at = string.at + 1, *end = string.end - 1;
    long c;

    text_add(into, "", 0);
    while (at < end) {
        if (*at != '\\') {
            text_add(into, at++, 1);
            continue;
        }
        at = escape(at + 1, end, &c);
        if (c < 0x80)
            text_format(into, "%c", (int)c);
        else if (c < 0x800)
            text_format(into, "%c%c", (int)(0xC0 | c >> 6), (int)(0x80 | (c & 0x3F)));
        else if (c < 0x10000)
            text_format(into, "%c%c%c", (int)(0xE0 | c >> 12), (int)(0x80 | (c >> 6 & 0x3F)), (int)(0x80 | (c & 0x3F)));
        else
            text_format(into, "%c%c%c%c", (int)(0xF0 | c >> 18), (int)(0x80 | (c >> 12 & 0x3F)),
                        (int)(0x80 | (c >> 6 & 0x3F)), (int)(0x80 | (c & 0x3F)));
    }
}

int json_whole(struct json number, long *value)
{
    const char *at;

    if (json_kind(number) != '0' || number.end - number.at > 10)
        return -1;
    for (at = number.at + (*number.at == '-'); at < number.end; at++)
        if (*at < '0' || *at > '9')
            return -1;
    *value = strtol(number.at, NULL, 10);
    return 0;
}
