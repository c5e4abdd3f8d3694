/*
 * The config file: one statement a line, "#" starts a comment line, "end" is the last line.
 *
 *   driver 580.65.06
 *   cuda 13.0
 *   gpu index=0 minor=0 uuid=GPU-… memory=40960 cc=8.0 pci=000000FF:01:00.0 name=NVIDIA A100-SXM4-40GB
 *   end
 *
 * gpu takes further, before name (which runs to the end of the line): used=MiB, util=PERCENT, id=PCI device
 * and vendor id in hexadecimal, xid=NUMBER (an XID error happened), health=lost (the GPU fell off the bus).
 * Unknown keys are skipped. A file without "end" is being written: the last complete one stays in force.
 */
#include "nvml_sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_CONFIG "/etc/kailab/nvml.conf"

/* Returns the number of bytes, or -1 when there is no such file or it is too large. */
long sim_read_config(char *into, size_t size)
{
    const char *path = getenv("KAILAB_NVML_CONFIG");
    size_t length = 0;
    int file = open(path != NULL && *path != '\0' ? path : DEFAULT_CONFIG, O_RDONLY | O_CLOEXEC);

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

/* Reads digits of the base; returns how many, 0 when there are none or the number is too large. */
static size_t number(const char *text, size_t length, int base, unsigned int *value)
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

static int whole_number(const char *text, size_t length, int base, unsigned int *value)
{
    return length > 0 && number(text, length, base, value) == length ? 0 : -1;
}

/* "8.0" */
static int pair(const char *text, size_t length, unsigned int *first, unsigned int *second)
{
    size_t at = number(text, length, 10, first);

    if (at == 0 || at >= length || text[at] != '.')
        return -1;
    return whole_number(text + at + 1, length - at - 1, 10, second);
}

/* "000000FF:01:00.0", with four or eight digits of domain; the function behind the dot must be 0. */
int sim_parse_pci(const char *text, size_t length, unsigned int *domain, unsigned int *bus,
                  unsigned int *device)
{
    size_t at = number(text, length, 16, domain), step;

    if (at == 0 || at >= length || text[at] != ':')
        return -1;
    step = number(text + at + 1, length - at - 1, 16, bus);
    at += 1 + step;
    if (step == 0 || at >= length || text[at] != ':')
        return -1;
    step = number(text + at + 1, length - at - 1, 16, device);
    at += 1 + step;
    return step != 0 && length - at == 2 && text[at] == '.' && text[at + 1] == '0' ? 0 : -1;
}

static int word(const char *text, size_t length, char *into, size_t size)
{
    if (length == 0 || length >= size)
        return -1;
    memcpy(into, text, length);
    into[length] = '\0';
    return 0;
}

static int is(const char *text, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

static int gpu_key(struct sim_gpu *gpu, const char *key, size_t keys, const char *value, size_t values)
{
    unsigned int amount = 0;

    if (is(key, keys, "uuid"))
        return word(value, values, gpu->uuid, sizeof gpu->uuid);
    if (is(key, keys, "name"))
        return word(value, values, gpu->name, sizeof gpu->name);
    if (is(key, keys, "index"))
        return whole_number(value, values, 10, &gpu->index);
    if (is(key, keys, "minor"))
        return whole_number(value, values, 10, &gpu->minor);
    if (is(key, keys, "util"))
        return whole_number(value, values, 10, &gpu->utilization);
    if (is(key, keys, "xid"))
        return whole_number(value, values, 10, &gpu->xid);
    if (is(key, keys, "id"))
        return whole_number(value, values, 16, &gpu->pci_id);
    if (is(key, keys, "cc"))
        return pair(value, values, &gpu->compute_major, &gpu->compute_minor);
    if (is(key, keys, "pci"))
        return sim_parse_pci(value, values, &gpu->pci_domain, &gpu->pci_bus, &gpu->pci_device);
    if (is(key, keys, "health")) {
        gpu->lost = is(value, values, "lost");
        return 0;
    }
    if (is(key, keys, "memory") || is(key, keys, "used")) {
        if (whole_number(value, values, 10, &amount) != 0)
            return -1;
        *(is(key, keys, "used") ? &gpu->used_mib : &gpu->memory_mib) = amount;
    }
    return 0;
}

static int gpu_line(struct sim_gpu *gpu, const char *text, size_t length)
{
    size_t at = 0, start, equals;

    memset(gpu, 0, sizeof *gpu);
    gpu->utilization = SIM_UNSET;
    gpu->pci_id = 0x10DE; /* NVIDIA's vendor id in the low half, no device id */
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
        if (is(text + start, equals - start, "name"))
            at = length;
        else
            while (at < length && text[at] != ' ')
                at++;
        if (gpu_key(gpu, text + start, equals - start, text + equals + 1, at - equals - 1) != 0)
            return -1;
    }
    return gpu->uuid[0] != '\0' && gpu->name[0] != '\0' && gpu->used_mib <= gpu->memory_mib ? 0 : -1;
}

/* Returns 0, or -1 when the text is incomplete or wrong. */
int sim_parse_config(const char *text, size_t length, struct sim_config *into)
{
    size_t at = 0;

    memset(into, 0, sizeof *into);
    while (at < length) {
        const char *line = text + at, *end = memchr(line, '\n', length - at);
        size_t size = end != NULL ? (size_t)(end - line) : length - at;

        at += size + 1;
        if (size == 0 || line[0] == '#')
            continue;
        if (is(line, size, "end"))
            return into->driver[0] != '\0' ? 0 : -1;
        if (size > 7 && memcmp(line, "driver ", 7) == 0) {
            if (word(line + 7, size - 7, into->driver, sizeof into->driver) != 0)
                return -1;
        } else if (size > 5 && memcmp(line, "cuda ", 5) == 0) {
            if (pair(line + 5, size - 5, &into->cuda_major, &into->cuda_minor) != 0)
                return -1;
        } else if (size > 4 && memcmp(line, "gpu ", 4) == 0) {
            if (into->count == SIM_MAX_GPUS || gpu_line(&into->gpus[into->count], line + 4, size - 4) != 0)
                return -1;
            into->count++;
        } else {
            return -1;
        }
    }
    return -1;
}
