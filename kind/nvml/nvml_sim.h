/*
 * Simulated NVML: what the files of this library share.
 *
 * The library answers NVML for the GPUs listed in a config file (nvml_config.c has its format). A GPU is
 * visible where its device node exists, so a container sees what the container runtime gave it, as with the
 * real driver.
 *
 * Types follow the binary interface of NVML 13.0; only those that are filled here are declared. No call may
 * need a glibc newer than 2.14 on x86-64: hence no stat(), strtol(), clock_gettime() or pthread_once()
 * anywhere.
 */
#ifndef NVML_SIM_H
#define NVML_SIM_H

#include <stddef.h>

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;

/* Versions 1 and 2 end after pciDeviceId and pciSubSystemId; version 3 has it all. */
typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned int version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass;
    char busId[32];
} nvmlPciInfoExt_t;

/* Version 1 of nvmlEventSetWait ends after eventData. */
typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

#define STRUCT_VERSION(type, number) ((unsigned int)sizeof(type) | (unsigned int)(number) << 24)

_Static_assert(sizeof(nvmlMemory_t) == 24, "NVML's nvmlMemory_t");
_Static_assert(sizeof(nvmlMemory_v2_t) == 40, "NVML's nvmlMemory_v2_t");
_Static_assert(sizeof(nvmlPciInfo_t) == 68, "NVML's nvmlPciInfo_t");
_Static_assert(sizeof(nvmlPciInfoExt_t) == 64, "NVML's nvmlPciInfoExt_v1_t");
_Static_assert(sizeof(nvmlEventData_t) == 32, "NVML's nvmlEventData_t");

#define SIM_MAX_GPUS 32
#define SIM_MAX_CONFIG (64 * 1024)

/* One GPU as the config file describes it. */
struct sim_gpu {
    char uuid[80], name[96];
    unsigned int index, minor;
    unsigned long long memory_mib, used_mib;
    unsigned int compute_major, compute_minor;
    unsigned int pci_domain, pci_bus, pci_device, pci_id;
    unsigned int utilization; /* percent; SIM_UNSET when the file does not say */
    unsigned int xid;         /* the XID error the GPU reported last; 0 when it is well */
    int lost;
};

#define SIM_UNSET 0xFFFFFFFFu

struct sim_config {
    char driver[80];
    unsigned int cuda_major, cuda_minor;
    unsigned int count;
    struct sim_gpu gpus[SIM_MAX_GPUS];
};

/* A handle: stays valid over changes of the config, as long as the process lives. */
struct nvmlDevice_st {
    struct sim_gpu gpu;
    int listed; /* whether the config names it now */
};

/* nvml_config.c: reads and parses. */
long sim_read_config(char *into, size_t size);
int sim_parse_config(const char *text, size_t length, struct sim_config *into);
int sim_parse_pci(const char *text, size_t length, unsigned int *domain, unsigned int *bus,
                  unsigned int *device);

/* nvml_state.c: the one state, behind one lock. sim_enter() takes the lock and brings the state up to date;
 * it fails, without the lock, when the library is not initialized. */
void sim_lock(void);
void sim_unlock(void);
nvmlReturn_t sim_enter(void);
nvmlReturn_t sim_enter_device(nvmlDevice_t device);
nvmlReturn_t sim_start(void);
nvmlReturn_t sim_stop(void);
const struct sim_config *sim_config(void);
unsigned int sim_visible(nvmlDevice_t *into, unsigned int room);
void sim_nap(unsigned int milliseconds);

/* Copies text with its end; NVML_ERROR_INSUFFICIENT_SIZE when it does not fit. */
nvmlReturn_t sim_copy(char *into, unsigned int size, const char *text);

#endif
