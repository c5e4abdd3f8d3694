/*
 * nvidia-smi of simulated GPUs: what its files share.
 *
 * It asks the libnvidia-ml.so.1 that the loader finds, which proves that a container has it. What no simulated GPU
 * has (nvml_unsupported.c) is not asked for, and printed as the real one prints it: "N/A". The layout is that of
 * driver 580, 91 columns wide (published output of 580.65 to 580.173; where every value is "N/A", output of a Jetson
 * Orin, driver 595). Exit codes are those of nvidia-smi's manual page.
 */
#ifndef SMI_H
#define SMI_H

#include "nvml_types.h"

enum {
    SMI_OK = 0,
    SMI_INVALID = 2, /* an argument or flag */
    SMI_NOT_FOUND = 6,
    SMI_NO_DRIVER = 9,
    SMI_NO_LIBRARY = 12,
    SMI_NO_FUNCTION = 13,
    SMI_GPU_LOST = 15,
    SMI_OTHER = 255
};

#define SMI_MAX_GPUS 64

/* The functions of NVML that are called: name without the prefix, arguments. */
#define SMI_FUNCTIONS(F)                                                                                   \
    F(Init_v2, void)                                                                                       \
    F(SystemGetDriverVersion, char *, unsigned int)                                                        \
    F(SystemGetCudaDriverVersion_v2, int *)                                                                \
    F(SystemGetProcessName, unsigned int, char *, unsigned int)                                            \
    F(DeviceGetCount_v2, unsigned int *)                                                                   \
    F(DeviceGetHandleByIndex_v2, unsigned int, nvmlDevice_t *)                                             \
    F(DeviceGetName, nvmlDevice_t, char *, unsigned int)                                                   \
    F(DeviceGetUUID, nvmlDevice_t, char *, unsigned int)                                                   \
    F(DeviceGetPciInfo_v3, nvmlDevice_t, nvmlPciInfo_t *)                                                  \
    F(DeviceGetCudaComputeCapability, nvmlDevice_t, int *, int *)                                          \
    F(DeviceGetMemoryInfo_v2, nvmlDevice_t, nvmlMemory_v2_t *)                                             \
    F(DeviceGetUtilizationRates, nvmlDevice_t, nvmlUtilization_t *)                                        \
    F(DeviceGetEnforcedPowerLimit, nvmlDevice_t, unsigned int *)                                           \
    F(DeviceGetComputeRunningProcesses_v3, nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *)

#define SMI_POINTER(name, ...) nvmlReturn_t (*name)(__VA_ARGS__);

struct smi_library {
    SMI_FUNCTIONS(SMI_POINTER)
};

extern struct smi_library nvml; /* as in nvml.DeviceGetName(...) */

/* One GPU as NVML counts, with what NVML says of it. */
struct smi_gpu {
    unsigned int index;
    nvmlReturn_t why; /* other than NVML_SUCCESS: why nothing of the rest is known */
    nvmlDevice_t handle;
    char name[96], uuid[96];
    nvmlPciInfo_t pci;
    int major, minor; /* of its compute capability */
    nvmlMemory_v2_t memory;
    int has_utilization, has_power;
    nvmlUtilization_t utilization;
    unsigned int power; /* the limit, in milliwatts */
};

struct smi_gpus {
    unsigned int count, all; /* those that are meant, and all there are */
    struct smi_gpu list[SMI_MAX_GPUS];
};

/* smi_nvml.c. Both return an exit code; what failed is printed. ids: comma-separated; NULL: all GPUs. */
int smi_open(void);
int smi_look(const char *ids, struct smi_gpus *gpus);
void smi_say_lost(const struct smi_gpu *gpu);

/* smi_table.c, smi_query.c */
void smi_table(const struct smi_gpus *gpus);
int smi_check_fields(const char *fields);
void smi_list_fields(void);
void smi_query(const char *fields, int header, int units, const struct smi_gpus *gpus);

/* One part of a comma-separated list, blanks around it left out; *list moves on. 0 at the end. */
int smi_part(const char **list, const char **part, size_t *length);

#endif
