/*
 * The usage file: what runs on the GPUs of the node, written by gpu-usage (usage_agent.c) and read here.
 *
 *   usage 17 pidns=4026531836
 *   process gpu=GPU-… pid=4242 pidns=4026532111 inner=1 memory=20480
 *   end 17
 *
 * The first line has the number of this writing and the node's PID namespace, by inode. A process line has the
 * GPU, the process in the node's PID namespace, its own namespace and its number there, and what it uses in
 * MiB. The file is written in place, as pods have it mounted: only where the last line repeats the number of
 * the first one is it whole. No file, or an empty one, says that nothing runs.
 */
#include "nvml_sim.h"

#include <string.h>

#define TRIES 20 /* times 1 ms: how long a file that is just being written is waited for */

static struct sim_usage usage, fresh;
static char text[SIM_MAX_FILE];

static int take_process(void *into, const char *key, size_t keys, const char *value, size_t values)
{
    struct sim_process *process = into;

    if (sim_is(key, keys, "gpu"))
        return sim_word(value, values, process->uuid, sizeof process->uuid);
    if (sim_is(key, keys, "pid"))
        return sim_unsigned(value, values, 10, &process->pid);
    if (sim_is(key, keys, "pidns"))
        return sim_unsigned(value, values, 10, &process->pidns);
    if (sim_is(key, keys, "inner"))
        return sim_unsigned(value, values, 10, &process->inner);
    if (sim_is(key, keys, "memory"))
        return sim_unsigned(value, values, 10, &process->memory_mib);
    return 0;
}

static int take_head(void *into, const char *key, size_t keys, const char *value, size_t values)
{
    return sim_is(key, keys, "pidns") ? sim_unsigned(value, values, 10, into) : 0;
}

/* "usage 17 pidns=…" */
static int head(const char *line, size_t size, unsigned int *writing)
{
    const char *blank = size > 6 ? memchr(line + 6, ' ', size - 6) : NULL;
    size_t number = blank != NULL ? (size_t)(blank - line) - 6 : 0;

    if (blank == NULL || memcmp(line, "usage ", 6) != 0 || sim_unsigned(line + 6, number, 10, writing) != 0)
        return -1;
    return sim_pairs(blank, size - number - 6, NULL, take_head, &fresh.pidns);
}

/* Parses into fresh; returns 0, or -1 when the text is not a whole file. */
static int parse(size_t length)
{
    unsigned int writing = 0, last = 0;
    size_t at = 0;

    memset(&fresh, 0, sizeof fresh);
    while (at < length) {
        const char *line = text + at, *end = memchr(line, '\n', length - at);
        size_t size = end != NULL ? (size_t)(end - line) : length - at;
        struct sim_process *process = &fresh.processes[fresh.count];

        if (at == 0 && head(line, size, &writing) != 0)
            return -1;
        if (size > 4 && memcmp(line, "end ", 4) == 0)
            return sim_unsigned(line + 4, size - 4, 10, &last) == 0 && last == writing ? 0 : -1;
        if (size > 8 && memcmp(line, "process ", 8) == 0 && fresh.count < SIM_MAX_PROCESSES) {
            if (sim_pairs(line + 8, size - 8, NULL, take_process, process) != 0)
                return -1;
            fresh.count++;
        }
        at += size + 1;
    }
    return -1;
}

/* A file that stays half written (its writer was killed) leaves the last whole one in force. */
const struct sim_usage *sim_usage(void)
{
    int tries;

    for (tries = 0; tries < TRIES; tries++) {
        long length = sim_read("KAILAB_USAGE", "/etc/kailab/usage", text, sizeof text);

        if (length <= 0) {
            memset(&usage, 0, sizeof usage);
            break;
        }
        if (parse((size_t)length) == 0) {
            usage = fresh;
            break;
        }
        sim_nap(1);
    }
    return &usage;
}
