/* gpu-usage: what its two files share. */
#ifndef USAGE_H
#define USAGE_H

#include "nvml_sim.h"

#define USAGE_KEY 192

/* The first process of a container that uses GPU memory. */
struct usage_container {
    char key[USAGE_KEY]; /* tells containers apart */
    unsigned int pid, pidns, inner;
    unsigned long long started; /* in clock ticks since the node's kernel started */
    double portion;             /* of each GPU it has; or, where this is negative: */
    unsigned int memory_mib;    /* on each GPU it has */
};

/* usage_container.c: the PID namespace of gpu-usage itself, by inode; 0 where /proc does not tell. */
unsigned int usage_own_pidns(const char *proc);

/* Reads one process; 0, or -1 when it is none of a container that uses GPU memory. */
int usage_read(const char *proc, unsigned int pid, unsigned int node_pidns, struct usage_container *container);

/* Whether the container of that process has the device node of a GPU. */
int usage_has_gpu(const char *proc, unsigned int pid, unsigned int minor);

#endif
