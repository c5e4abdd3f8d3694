/*
 * gpu-usage: what /proc tells of one process: which container it is of, and what that uses.
 *
 * Looked at first is what rules most processes out at little cost: those of the node itself (they are in its PID
 * namespace) and of containers without a GPU (no /dev/nvidiactl, which the CDI spec gives with every GPU).
 */
#include "usage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONTAINER_ID 64 /* hexadecimal digits */

/* Reads a file of a process, with an end; returns its length, or -1. What does not fit is cut off. */
static long read_file(const char *proc, unsigned int pid, const char *name, char *into, size_t size)
{
    char path[512];
    size_t length = 0;
    ssize_t got = 0;
    int file;

    snprintf(path, sizeof path, "%s/%u/%s", proc, pid, name);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    while (length < size - 1 && (got = read(file, into + length, size - 1 - length)) > 0)
        length += (size_t)got;
    close(file);
    into[length] = '\0';
    return got < 0 ? -1 : (long)length;
}

/* The inode in "pid:[4026531836]". */
static unsigned int pidns_of(const char *proc, const char *whose)
{
    char path[512], link[64];
    unsigned int inode = 0;
    ssize_t length;

    snprintf(path, sizeof path, "%s/%s/ns/pid", proc, whose);
    length = readlink(path, link, sizeof link);
    if (length < 7 || memcmp(link, "pid:[", 5) != 0 || sim_unsigned(link + 5, (size_t)length - 6, 10, &inode) != 0)
        return 0;
    return inode;
}

unsigned int usage_own_pidns(const char *proc)
{
    return pidns_of(proc, "self");
}

static int has_device(const char *proc, unsigned int pid, const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%u/root/dev/%s", proc, pid, name);
    return access(path, F_OK) == 0;
}

int usage_has_gpu(const char *proc, unsigned int pid, unsigned int minor)
{
    char name[32];

    snprintf(name, sizeof name, "nvidia%u", minor);
    return has_device(proc, pid, name);
}

/* The value of a variable in what /proc/PID/environ has; NULL when it is not set. */
static const char *variable(const char *environment, long length, const char *name)
{
    size_t size = strlen(name);
    const char *at = environment;

    while (at < environment + length) {
        if (strncmp(at, name, size) == 0 && at[size] == '=')
            return at + size + 1;
        at += strlen(at) + 1;
    }
    return NULL;
}

/* What the container says that it uses; 0 when it uses something. */
static int read_amount(const char *environment, long length, struct usage_container *container)
{
    const char *declared = variable(environment, length, "KAILAB_GPU_MEMORY_MIB");
    const char *portion = variable(environment, length, "GPU_PORTION");
    char *end = NULL;

    container->portion = -1;
    container->memory_mib = 0;
    if (declared != NULL && sim_unsigned(declared, strlen(declared), 10, &container->memory_mib) == 0)
        return container->memory_mib > 0 ? 0 : -1;
    if (portion == NULL)
        return -1;
    container->portion = strtod(portion, &end);
    return end != portion && *end == '\0' && container->portion > 0 && container->portion <= 1 ? 0 : -1;
}

/* The field of stat behind the name, which may have blanks and brackets: 22 is the time of start. */
static unsigned long long started(const char *stat)
{
    const char *at = strrchr(stat, ')');
    unsigned long long ticks = 0;
    int field;

    for (field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    for (at = at != NULL ? at + 1 : ""; *at >= '0' && *at <= '9'; at++)
        ticks = ticks * 10 + (unsigned long long)(*at - '0');
    return ticks;
}

/* The last number of the line NSpid: that in the innermost PID namespace. */
static unsigned int inner_pid(const char *status)
{
    const char *line = strstr(status, "\nNSpid:"), *end, *at;
    unsigned int number = 0;

    if (line == NULL)
        return 0;
    end = line + 1 + strcspn(line + 1, "\n");
    for (at = end; at[-1] >= '0' && at[-1] <= '9'; at--)
        ;
    return sim_unsigned(at, (size_t)(end - at), 10, &number) == 0 ? number : 0;
}

/*
 * What tells containers apart: the id in the cgroup path, with which the PID namespace does not have to differ
 * (shareProcessNamespace). A path below the container's own, made in it, has the same id: the first one behind
 * the pod's directories counts.
 */
static void read_key(const char *cgroup, struct usage_container *container)
{
    const char *at = strstr(cgroup, "cri-containerd-");
    size_t digits = at != NULL ? strspn(at + 15, "0123456789abcdef") : 0;

    if (digits == CONTAINER_ID)
        snprintf(container->key, sizeof container->key, "%.*s", CONTAINER_ID, at + 15);
    else
        snprintf(container->key, sizeof container->key, "pidns %u", container->pidns);
}

int usage_read(const char *proc, unsigned int pid, unsigned int node_pidns, struct usage_container *container)
{
    static char text[128 * 1024]; /* one environment: Kubernetes adds some variables for each service */
    char number[16];
    long length;

    snprintf(number, sizeof number, "%u", pid);
    container->pid = pid;
    container->pidns = pidns_of(proc, number);
    if (container->pidns == 0 || container->pidns == node_pidns || !has_device(proc, pid, "nvidiactl"))
        return -1;
    length = read_file(proc, pid, "environ", text, sizeof text);
    if (length < 0 || read_amount(text, length, container) != 0)
        return -1;
    if (read_file(proc, pid, "stat", text, sizeof text) < 0)
        return -1;
    container->started = started(text);
    if (read_file(proc, pid, "status", text, sizeof text) < 0)
        return -1;
    container->inner = inner_pid(text);
    if (read_file(proc, pid, "cgroup", text, sizeof text) < 0)
        return -1;
    read_key(text, container);
    return 0;
}
