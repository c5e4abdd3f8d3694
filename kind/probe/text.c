/* Text that grows, and JSON strings in it. */
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int make_room(struct text *text, size_t more)
{
    size_t room = text->room != 0 ? text->room : 512;
    char *bytes;

    if (text->failed)
        return -1;
    while (room < text->length + more + 1)
        room *= 2;
    if (room == text->room)
        return 0;
    bytes = realloc(text->bytes, room);
    if (bytes == NULL) {
        text->failed = 1;
        return -1;
    }
    text->bytes = bytes;
    text->room = room;
    return 0;
}

void text_add(struct text *text, const char *bytes, size_t length)
{
    if (make_room(text, length) != 0)
        return;
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

void text_format(struct text *text, const char *format, ...)
{
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || make_room(text, (size_t)length) != 0)
        return;
    va_start(arguments, format);
    vsnprintf(text->bytes + text->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
}

/* Well-formed by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
size_t utf8_length(const char *at, const char *end)
{
    const unsigned char *byte = (const unsigned char *)at;
    size_t length = *byte < 0x80 ? 1 : *byte < 0xC2 ? 0 : *byte < 0xE0 ? 2 : *byte < 0xF0 ? 3 : *byte < 0xF5 ? 4 : 0, i;

    if (length == 0 || (size_t)(end - at) < length)
        return 0;
    for (i = 1; i < length; i++)
        if ((byte[i] & 0xC0) != 0x80)
            return 0;
    if ((byte[0] == 0xE0 && byte[1] < 0xA0) || (byte[0] == 0xED && byte[1] > 0x9F)
        || (byte[0] == 0xF0 && byte[1] < 0x90) || (byte[0] == 0xF4 && byte[1] > 0x8F))
        return 0;
    return length;
}

void text_string(struct text *text, const char *bytes, size_t length)
{
    const char *at = bytes, *end = bytes + length;

    text_add(text, "\"", 1);
    while (at < end) {
        size_t size = utf8_length(at, end);

        if (size == 0)
            text_add(text, "\\ufffd", 6);
        else if (*at == '"' || *at == '\\')
            text_format(text, "\\%c", *at);
        else if ((unsigned char)*at < 0x20)
            text_format(text, "\\u%04x", (unsigned int)*at);
        else
            text_add(text, at, size);
        at += size != 0 ? size : 1;
    }
    text_add(text, "\"", 1);
}

void text_quote(struct text *text, const char *string)
{
    if (string != NULL)
        text_string(text, string, strlen(string));
    else
        text_add(text, "null", 4);
}

void text_free(struct text *text)
{
    free(text->bytes);
    memset(text, 0, sizeof *text);
}
