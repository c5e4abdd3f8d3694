/* The small parts that the config file and the usage file are made of: words, numbers, KEY=VALUE pairs. */
#include "nvml_sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int sim_is(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

/* Reads digits of the base; returns how many, 0 without digits or when the number is too large. */
static size_t digits(const char *text, size_t length, int base, unsigned int *value)
{
    unsigned long long sum = 0;
    size_t at = 0;

    for (; at < length && digit(text[at]) < base; at++) {
        sum = sum * (unsigned int)base + (unsigned int)digit(text[at]);
        if (sum > 0xFFFFFFFFull)
            return 0;
    }
    *value = (unsigned int)sum;
    return at;
}

int sim_unsigned(const char *text, size_t length, int base, unsigned int *value)
{
    return length > 0 && digits(text, length, base, value) == length ? 0 : -1;
}

/* "8.0" */
int sim_version(const char *text, size_t length, unsigned int *first, unsigned int *second)
{
    size_t at = digits(text, length, 10, first);

    if (at == 0 || at >= length || text[at] != '.')
        return -1;
    return sim_unsigned(text + at + 1, length - at - 1, 10, second);
}

/* "000000FF:01:00.0", with four or eight digits of domain; the function behind the dot must be 0. */
int sim_pci(const char *text, size_t length, unsigned int *domain, unsigned int *bus, unsigned int *device)
{
    size_t at = digits(text, length, 16, domain), step;

    if (at == 0 || at >= length || text[at] != ':')
        return -1;
    step = digits(text + at + 1, length - at - 1, 16, bus);
    at += 1 + step;
    if (step == 0 || at >= length || text[at] != ':')
        return -1;
    step = digits(text + at + 1, length - at - 1, 16, device);
    at += 1 + step;
    return step != 0 && length - at == 2 && text[at] == '.' && text[at + 1] == '0' ? 0 : -1;
}

int sim_word(const char *text, size_t length, char *into, size_t size)
{
    if (length == 0 || length >= size)
        return -1;
    memcpy(into, text, length);
    into[length] = '\0';
    return 0;
}

int sim_pairs(const char *text, size_t length, const char *rest, sim_taker take, void *into)
{
    size_t at = 0, start, equals;

    while (at < length) {
        if (text[at] == ' ') {
            at++;
            continue;
        }
        for (start = at; at < length && text[at] != '=' && text[at] != ' '; at++)
            ;
        if (at >= length || text[at] != '=')
            return -1;
        equals = at++;
        if (rest != NULL && sim_is(text + start, equals - start, rest))
            at = length;
        else
            while (at < length && text[at] != ' ')
                at++;
        if (take(into, text + start, equals - start, text + equals + 1, at - equals - 1) != 0)
            return -1;
    }
    return 0;
}

long sim_read(const char *variable, const char *path, char *into, size_t size)
{
    const char *other = getenv(variable);
    size_t length = 0;
    int file = open(other != NULL && *other != '\0' ? other : path, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return -1;
    while (length < size) {
        ssize_t got = read(file, into + length, size - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    close(file);
    return length < size ? (long)length : -1;
}
