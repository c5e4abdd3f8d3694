/*
 * Simulated NVML: what the files of the library share, and what nvidia-smi and gpu-usage take from it.
 *
 * The library answers NVML for the GPUs listed in a config file (nvml_config.c has its format), with what
 * runs on them from a usage file (nvml_usage.c). A GPU is visible where its device node exists, so a
 * container sees what the container runtime gave it, as with the real driver.
 *
 * No call may need a glibc newer than 2.14 on x86-64: hence no stat(), strtol(), clock_gettime() or
 * pthread_once() anywhere.
 */
#ifndef NVML_SIM_H
#define NVML_SIM_H

#include "nvml_types.h"

#define SIM_MAX_GPUS 32
#define SIM_MAX_FILE (64 * 1024) /* bytes of the config, and of the usage file */
#define SIM_MAX_PROCESSES 512
#define SIM_UNSET 0xFFFFFFFFu

#define MIB (1024ull * 1024)

/* One GPU as the config file describes it; SIM_UNSET where it does not say. */
struct sim_gpu {
    char uuid[80], name[96];
    unsigned int index, minor;
    unsigned int memory_mib, used_mib;
    unsigned int compute_major, compute_minor, architecture;
    unsigned int pci_domain, pci_bus, pci_device, pci_id, pci_subsystem;
    unsigned int utilization; /* percent */
    unsigned int power;       /* limit, in watts */
    unsigned int xid;         /* the XID error the GPU reported last; 0 when it is well */
    int lost;
};

struct sim_config {
    char driver[80];
    unsigned int cuda_major, cuda_minor;
    unsigned int count;
    struct sim_gpu gpus[SIM_MAX_GPUS];
};

/* One process on one GPU, as the usage file tells. */
struct sim_process {
    char uuid[80];
    unsigned int pid;          /* in the node's PID namespace */
    unsigned int pidns, inner; /* its own PID namespace, by inode, and its number there */
    unsigned int memory_mib;
};

struct sim_usage {
    unsigned int pidns; /* the node's PID namespace */
    unsigned int count;
    struct sim_process processes[SIM_MAX_PROCESSES];
};

/* A handle: stays valid over changes of the config, as long as the process lives. */
struct nvmlDevice_st {
    struct sim_gpu gpu;
    int listed; /* whether the config names it now */
};

/* nvml_words.c: what both files are made of. Each returns 0, or -1 when the text is not of that kind. */
int sim_is(const char *text, size_t length, const char *word);
int sim_unsigned(const char *text, size_t length, int base, unsigned int *value);
int sim_version(const char *text, size_t length, unsigned int *first, unsigned int *second);
int sim_word(const char *text, size_t length, char *into, size_t size);
int sim_pci(const char *text, size_t length, unsigned int *domain, unsigned int *bus, unsigned int *device);

/* Calls take for each KEY=VALUE of the text, which blanks separate; the value of the key rest (NULL: none)
 * runs to the end. Returns 0, or -1 as soon as one is wrong. */
typedef int (*sim_taker)(void *into, const char *key, size_t keys, const char *value, size_t values);
int sim_pairs(const char *text, size_t length, const char *rest, sim_taker take, void *into);

/* Reads a file whose path an environment variable may change. Returns the number of bytes, or -1 when the
 * file is missing or too large. */
long sim_read(const char *variable, const char *path, char *into, size_t size);

/* nvml_config.c. Parsing returns 0, or -1 when the text is incomplete or wrong. */
long sim_read_config(char *into, size_t size);
int sim_parse_config(const char *text, size_t length, struct sim_config *into);
int sim_has_node(const struct sim_gpu *gpu);

/* nvml_usage.c: what runs now; valid until the lock of the library is released. */
const struct sim_usage *sim_usage(void);

/* nvml_state.c: the one state, behind one lock. sim_enter() takes the lock and brings the state up to date;
 * it fails, without the lock, when the library is not initialized. sim_enter_device() fails on a foreign
 * handle and on a lost GPU too; sim_enter_known() lets a lost one pass, for what does not need the GPU. */
void sim_unlock(void);
nvmlReturn_t sim_enter(void);
nvmlReturn_t sim_enter_device(nvmlDevice_t device);
nvmlReturn_t sim_enter_known(nvmlDevice_t device);
nvmlReturn_t sim_start(void);
nvmlReturn_t sim_stop(void);
const struct sim_config *sim_config(void);
unsigned int sim_visible(nvmlDevice_t *into, unsigned int room);
void sim_nap(unsigned int milliseconds);

/* Copies text with its end; NVML_ERROR_INSUFFICIENT_SIZE when it does not fit. */
nvmlReturn_t sim_copy(char *into, unsigned int size, const char *text);

/* For functions on one device: take the lock or leave the function, and leave it again. */
#define ENTER_BY(enter, device, pointer)                                                                   \
    do {                                                                                                   \
        nvmlReturn_t entered = (pointer) != NULL ? enter(device) : NVML_ERROR_INVALID_ARGUMENT;            \
        if (entered != NVML_SUCCESS)                                                                       \
            return entered;                                                                                \
    } while (0)

#define ENTER(device, pointer) ENTER_BY(sim_enter_device, device, pointer)
#define ENTER_KNOWN(device, pointer) ENTER_BY(sim_enter_known, device, pointer)

/* For functions on no device. */
#define ENTER_ANY(pointer)                                                                                 \
    do {                                                                                                   \
        nvmlReturn_t entered = (pointer) != NULL ? sim_enter() : NVML_ERROR_INVALID_ARGUMENT;              \
        if (entered != NVML_SUCCESS)                                                                       \
            return entered;                                                                                \
    } while (0)

#define LEAVE(result)                                                                                      \
    do {                                                                                                   \
        sim_unlock();                                                                                      \
        return result;                                                                                     \
    } while (0)

#endif
