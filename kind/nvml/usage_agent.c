/*
 * gpu-usage: writes once a second what runs on the simulated GPUs of a node (nvml_usage.c has the file's format).
 *
 * Nothing computes on a simulated GPU, so nothing can be measured. What a container uses is what it says or was
 * given, on each GPU whose device node it has:
 *   KAILAB_GPU_MEMORY_MIB   so many MiB, whatever share it has
 *   GPU_PORTION             that share of the GPU; KAI's binder sets it for containers of fraction and gpu-memory pods,
 *                           with two digits behind the point (pkg/binder/common/gpu_access.go, 0.7.11 to 0.17.0)
 *   neither                 nothing: a container that has a whole GPU and does not say that it computes; and the
 *                           device plugin, KAI's reservation pods and privileged pods, which have GPUs too
 * They are read from the environment that the container's first process was started with. A container in the
 * node's own PID namespace (hostPID) is not seen. Each container counts as one process: the one that started first.
 *
 *   gpu-usage          runs until it is stopped
 *   gpu-usage --once   writes once; for tests, as are KAILAB_PROC, KAILAB_USAGE and KAILAB_NVML_CONFIG
 */
#include "usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CONTAINERS 512

static struct usage_container containers[CONTAINERS];
static struct sim_config config;
static char body[SIM_MAX_FILE], written[SIM_MAX_FILE];

static const char *setting(const char *variable, const char *otherwise)
{
    const char *value = getenv(variable);

    return value != NULL && *value != '\0' ? value : otherwise;
}

/* Adds a container, or takes an older process of one that is there already. */
static unsigned int add(unsigned int count, const struct usage_container *found)
{
    unsigned int i;

    for (i = 0; i < count && strcmp(containers[i].key, found->key) != 0; i++)
        ;
    if (i == CONTAINERS)
        return count;
    if (i == count || found->started < containers[i].started
        || (found->started == containers[i].started && found->pid < containers[i].pid))
        containers[i] = *found;
    return i == count ? count + 1 : count;
}

static unsigned int look(const char *proc, unsigned int node_pidns)
{
    struct usage_container found;
    unsigned int count = 0, pid;
    struct dirent *entry;
    DIR *folder = opendir(proc);

    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (sim_unsigned(entry->d_name, strlen(entry->d_name), 10, &pid) == 0
            && usage_read(proc, pid, node_pidns, &found) == 0)
            count = add(count, &found);
    if (folder != NULL)
        closedir(folder);
    return count;
}

static int by_pid(const void *one, const void *other)
{
    const struct usage_container *a = one, *b = other;

    return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static unsigned int amount(const struct usage_container *container, const struct sim_gpu *gpu)
{
    return container->portion < 0 ? container->memory_mib
                                  : (unsigned int)(container->portion * gpu->memory_mib + 0.5);
}

/* The lines between the first and the last one. */
static void describe(const char *proc, unsigned int count)
{
    size_t length = 0;
    unsigned int i, j;

    body[0] = '\0';
    for (i = 0; i < count; i++)
        for (j = 0; j < config.count; j++) {
            if (!usage_has_gpu(proc, containers[i].pid, config.gpus[j].minor) || length + 256 > sizeof body)
                continue;
            length += (size_t)snprintf(body + length, sizeof body - length,
                                       "process gpu=%s pid=%u pidns=%u inner=%u memory=%u\n", config.gpus[j].uuid,
                                       containers[i].pid, containers[i].pidns, containers[i].inner,
                                       amount(&containers[i], &config.gpus[j]));
        }
}

/* In place, the longer content first: readers take it once the last line repeats the number of the first one. */
static int save(unsigned int writing, unsigned int node_pidns)
{
    static char text[SIM_MAX_FILE + 256];
    int length = snprintf(text, sizeof text, "usage %u pidns=%u\n%send %u\n", writing, node_pidns, body, writing);
    int file = open(setting("KAILAB_USAGE", "/etc/kailab/usage"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    int result;

    if (file < 0)
        return -1;
    result = write(file, text, (size_t)length) == length && ftruncate(file, length) == 0 ? 0 : -1;
    close(file);
    return result;
}

/* The config as it was last whole; without one there are no GPUs. */
static void read_config(void)
{
    static char text[SIM_MAX_FILE];
    static struct sim_config fresh;
    long length = sim_read_config(text, sizeof text);

    if (length >= 0 && sim_parse_config(text, (size_t)length, &fresh) == 0)
        config = fresh;
}

int main(int argc, char **argv)
{
    const char *proc = setting("KAILAB_PROC", "/proc");
    const struct timespec second = {1, 0};
    unsigned int node_pidns = usage_own_pidns(proc), writing = (unsigned int)time(NULL), count;
    int once = argc > 1 && strcmp(argv[1], "--once") == 0, fresh = 1; /* fresh: nothing is written yet */

    for (;; nanosleep(&second, NULL)) {
        read_config();
        count = look(proc, node_pidns);
        qsort(containers, count, sizeof *containers, by_pid);
        describe(proc, count);
        if (fresh || strcmp(body, written) != 0) {
            fresh = save(++writing, node_pidns) != 0;
            if (fresh)
                perror("gpu-usage");
            else
                strcpy(written, body);
        }
        if (once)
            return fresh;
    }
}
