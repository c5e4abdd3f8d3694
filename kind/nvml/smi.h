/*
 * nvidia-smi over whatever libnvidia-ml.so.1 the loader finds: what its files share.
 *
 * It asks NVML for everything it prints, and prints what NVML does not know as the real one does: "N/A". The
 * layout is that of driver 580, 91 columns wide (published output of 580.65 to 580.173; where every value is
 * "N/A", output of a Jetson Orin, driver 595). Exit codes are those of nvidia-smi's manual page.
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
#define SMI_TEXT 256

/* The functions of NVML that are called: name without the prefix, arguments. */
#define SMI_FUNCTIONS(F)                                                                                   \
    F(Init_v2, void)                                                                                       \
    F(Shutdown, void)                                                                                      \
    F(SystemGetDriverVersion, char *, unsigned int)                                                        \
    F(SystemGetCudaDriverVersion_v2, int *)                                                                \
    F(SystemGetProcessName, unsigned int, char *, unsigned int)                                            \
    F(DeviceGetCount_v2, unsigned int *)                                                                   \
    F(DeviceGetHandleByIndex_v2, unsigned int, nvmlDevice_t *)                                             \
    F(DeviceGetName, nvmlDevice_t, char *, unsigned int)                                                   \
    F(DeviceGetBrand, nvmlDevice_t, unsigned int *)                                                        \
    F(DeviceGetArchitecture, nvmlDevice_t, unsigned int *)                                                 \
    F(DeviceGetUUID, nvmlDevice_t, char *, unsigned int)                                                   \
    F(DeviceGetSerial, nvmlDevice_t, char *, unsigned int)                                                 \
    F(DeviceGetVbiosVersion, nvmlDevice_t, char *, unsigned int)                                           \
    F(DeviceGetMinorNumber, nvmlDevice_t, unsigned int *)                                                  \
    F(DeviceGetPciInfo_v3, nvmlDevice_t, nvmlPciInfo_t *)                                                  \
    F(DeviceGetPciInfoExt, nvmlDevice_t, nvmlPciInfoExt_t *)                                               \
    F(DeviceGetCudaComputeCapability, nvmlDevice_t, int *, int *)                                          \
    F(DeviceGetMemoryInfo_v2, nvmlDevice_t, nvmlMemory_v2_t *)                                             \
    F(DeviceGetUtilizationRates, nvmlDevice_t, nvmlUtilization_t *)                                        \
    F(DeviceGetTemperature, nvmlDevice_t, unsigned int, unsigned int *)                                    \
    F(DeviceGetFanSpeed, nvmlDevice_t, unsigned int *)                                                     \
    F(DeviceGetPerformanceState, nvmlDevice_t, unsigned int *)                                             \
    F(DeviceGetPowerUsage, nvmlDevice_t, unsigned int *)                                                   \
    F(DeviceGetEnforcedPowerLimit, nvmlDevice_t, unsigned int *)                                           \
    F(DeviceGetPowerManagementLimit, nvmlDevice_t, unsigned int *)                                         \
    F(DeviceGetPowerManagementDefaultLimit, nvmlDevice_t, unsigned int *)                                  \
    F(DeviceGetClockInfo, nvmlDevice_t, unsigned int, unsigned int *)                                      \
    F(DeviceGetMaxClockInfo, nvmlDevice_t, unsigned int, unsigned int *)                                   \
    F(DeviceGetPersistenceMode, nvmlDevice_t, unsigned int *)                                              \
    F(DeviceGetDisplayActive, nvmlDevice_t, unsigned int *)                                                \
    F(DeviceGetComputeMode, nvmlDevice_t, unsigned int *)                                                  \
    F(DeviceGetEccMode, nvmlDevice_t, unsigned int *, unsigned int *)                                      \
    F(DeviceGetMigMode, nvmlDevice_t, unsigned int *, unsigned int *)                                      \
    F(DeviceGetTotalEccErrors, nvmlDevice_t, unsigned int, unsigned int, unsigned long long *)             \
    F(DeviceGetComputeRunningProcesses_v3, nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *)

#define SMI_POINTER(name, ...) nvmlReturn_t (*name)(__VA_ARGS__);

struct smi_library {
    SMI_FUNCTIONS(SMI_POINTER)
};

extern struct smi_library nvml; /* as in nvml.DeviceGetName(...) */

/* One GPU as NVML counts; without a handle, why says why not. */
struct smi_gpu {
    unsigned int index;
    nvmlDevice_t handle;
    nvmlReturn_t why;
};

/* What a line is about: a GPU, and a process on it where the line is about one. */
struct smi_subject {
    const struct smi_gpu *gpu;
    const nvmlProcessInfo_t *process;
};

/* Writes a value without its unit. */
typedef nvmlReturn_t (*smi_getter)(const struct smi_subject *subject, char *text, size_t size);

struct smi_processes {
    unsigned int count;
    nvmlProcessInfo_t *list;
};

/* What the command line asks for. */
struct smi_options {
    enum { SMI_TABLE, SMI_LIST, SMI_REPORT, SMI_QUERY_GPUS, SMI_QUERY_APPS, SMI_HELP, SMI_VERSION,
           SMI_HELP_GPUS, SMI_HELP_APPS } mode;
    const char *ids;     /* comma-separated; NULL: all GPUs */
    const char *fields;  /* comma-separated */
    const char *display; /* comma-separated sections; NULL: all */
    const char *filename;
    int header, units;
    unsigned int pause;  /* milliseconds between two outputs; 0: once */
};

/* smi_nvml.c. Each returns an exit code; what failed is printed. */
int smi_open(void);
void smi_close(void);
int smi_gpus(const char *ids, struct smi_gpu *gpus, unsigned int *count);
struct smi_processes smi_processes(const struct smi_gpu *gpu);
void smi_say_lost(const struct smi_gpu *gpu);

/* smi_options.c: 0, or the exit code after printing what is wrong. */
int smi_parse(int argc, char **argv, struct smi_options *options);

/* smi_table.c, smi_query.c, smi_report.c, smi_help.c */
void smi_table(const struct smi_gpu *gpus, unsigned int count);
void smi_query(const struct smi_options *options, const struct smi_gpu *gpus, unsigned int count, int first);
int smi_check_fields(const struct smi_options *options);
void smi_list_fields(int apps);
void smi_report(const char *display, const struct smi_gpu *gpus, unsigned int count);
int smi_check_display(const char *display);
void smi_help(void);
void smi_version(void);

/* smi_values.c */
#define SMI_GETTERS(G)                                                                                     \
    G(timestamp) G(driver_version) G(count) G(name) G(brand) G(architecture) G(serial) G(uuid) G(index)    \
    G(minor) G(vbios) G(bus_id) G(pci_domain) G(pci_bus) G(pci_device) G(pci_base_class) G(pci_sub_class)  \
    G(pci_device_id) G(pci_sub_device_id) G(compute_cap) G(compute_mode) G(persistence_mode)               \
    G(display_active) G(memory_total) G(memory_reserved) G(memory_used) G(memory_free) G(utilization_gpu)  \
    G(utilization_memory) G(temperature) G(fan_speed) G(pstate) G(power_draw) G(power_limit)               \
    G(power_enforced) G(power_default) G(clock_graphics) G(clock_sm) G(clock_memory) G(clock_video)        \
    G(max_clock_graphics) G(max_clock_sm) G(max_clock_memory) G(max_clock_video) G(ecc_current)            \
    G(ecc_pending) G(mig_current) G(mig_pending) G(pid) G(process_name) G(process_memory)

#define SMI_GETTER(name) nvmlReturn_t smi_##name(const struct smi_subject *, char *, size_t);
SMI_GETTERS(SMI_GETTER)

/* One part of a comma-separated list, blanks around it left out; *list moves on. 0 at the end. */
int smi_part(const char **list, const char **part, size_t *length);

#endif
