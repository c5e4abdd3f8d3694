/* nvidia-smi: the library, the GPUs it knows, what runs on them. */
#include "smi.h"

#include "nvml_sim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libnvidia-ml.so.1"

struct smi_library nvml;

/* The library that the loader finds; in a node, where it lies outside the loader's path, the one beside us. */
static void *open_library(void)
{
    char path[4096];
    void *library = dlopen(LIBRARY, RTLD_NOW);
    ssize_t length;

    if (library != NULL)
        return library;
    length = readlink("/proc/self/exe", path, sizeof path - sizeof LIBRARY - 1);
    while (length > 0 && path[length - 1] != '/')
        length--;
    if (length <= 0)
        return NULL;
    strcpy(path + length, LIBRARY);
    return dlopen(path, RTLD_NOW);
}

static int load(void *library)
{
    void *found;

#define LOAD(name, ...)                                                                                    \
    found = dlsym(library, "nvml" #name);                                                                  \
    if (found == NULL) {                                                                                   \
        printf("NVIDIA-SMI: " LIBRARY " has no function nvml" #name "\n\n");                               \
        return SMI_NO_FUNCTION;                                                                            \
    }                                                                                                      \
    memcpy(&nvml.name, &found, sizeof found);
    SMI_FUNCTIONS(LOAD)
    return SMI_OK;
}

int smi_open(void)
{
    void *library = open_library();
    int code;

    if (library == NULL) {
        printf("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA "
               "Display Driver is properly installed and present in your system.\n"
               "Please also try adding directory that contains libnvidia-ml.so to your system PATH.\n\n");
        return SMI_NO_LIBRARY;
    }
    code = load(library);
    if (code != SMI_OK)
        return code;
    switch (nvml.Init_v2()) {
    case NVML_SUCCESS: return SMI_OK;
    case NVML_ERROR_DRIVER_NOT_LOADED:
        printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the "
               "latest NVIDIA driver is installed and running.\n\n");
        return SMI_NO_DRIVER;
    default: printf("Failed to initialize NVML: Unknown Error\n"); return SMI_OTHER;
    }
}

void smi_close(void)
{
    nvml.Shutdown();
}

/* Bus id of a GPU that NVML gives no handle for: the config is asked, which stands for the kernel's list. */
static int bus_id_of(unsigned int index, char *text, size_t size)
{
    static char config_text[SIM_MAX_FILE];
    static struct sim_config config;
    long length = sim_read_config(config_text, sizeof config_text);
    unsigned int i, visible = 0;

    if (length < 0 || sim_parse_config(config_text, (size_t)length, &config) != 0)
        return -1;
    for (i = 0; i < config.count; i++)
        if (sim_has_node(&config.gpus[i]) && visible++ == index) {
            snprintf(text, size, "%04X:%02X:%02X.0", config.gpus[i].pci_domain & 0xFFFF,
                     config.gpus[i].pci_bus & 0xFF, config.gpus[i].pci_device & 0x1F);
            return 0;
        }
    return -1;
}

void smi_say_lost(const struct smi_gpu *gpu)
{
    char bus[32];

    printf("Unable to determine the device handle for GPU%u: ", gpu->index);
    if (bus_id_of(gpu->index, bus, sizeof bus) == 0)
        printf("%s: ", bus);
    if (gpu->why == NVML_ERROR_GPU_IS_LOST)
        printf("GPU is lost.  Reboot the system to recover this GPU\n");
    else
        printf("Unknown Error\n");
}

int smi_part(const char **list, const char **part, size_t *length)
{
    const char *at = *list, *end;

    if (at == NULL || *at == '\0')
        return 0;
    end = at + strcspn(at, ",");
    *list = *end == ',' ? end + 1 : end;
    while (at < end && *at == ' ')
        at++;
    while (end > at && end[-1] == ' ')
        end--;
    *part = at;
    *length = (size_t)(end - at);
    return 1;
}

/* Whether the GPU is meant by an index, a UUID or a bus id (with four or eight digits of domain). */
static int is_meant(const struct smi_gpu *gpu, const char *id, size_t length)
{
    char text[SMI_TEXT];
    nvmlPciInfo_t pci;
    unsigned int number, domain, bus, device;

    if (sim_unsigned(id, length, 10, &number) == 0)
        return number == gpu->index;
    if (gpu->handle == NULL)
        return 0;
    if (sim_pci(id, length, &domain, &bus, &device) == 0)
        return nvml.DeviceGetPciInfo_v3(gpu->handle, &pci) == NVML_SUCCESS && pci.domain == domain
            && pci.bus == bus && pci.device == device;
    return nvml.DeviceGetUUID(gpu->handle, text, sizeof text) == NVML_SUCCESS && sim_is(id, length, text);
}

static int is_wanted(const struct smi_gpu *gpu, const char *ids)
{
    const char *id;
    size_t length;

    if (ids == NULL)
        return 1;
    while (smi_part(&ids, &id, &length))
        if (is_meant(gpu, id, length))
            return 1;
    return 0;
}

int smi_gpus(const char *ids, struct smi_gpu *gpus, unsigned int *count)
{
    unsigned int all = 0, i;

    *count = 0;
    nvml.DeviceGetCount_v2(&all);
    for (i = 0; i < all && *count < SMI_MAX_GPUS; i++) {
        struct smi_gpu gpu = {i, NULL, NVML_SUCCESS};

        gpu.why = nvml.DeviceGetHandleByIndex_v2(i, &gpu.handle);
        if (gpu.why != NVML_SUCCESS)
            gpu.handle = NULL;
        if (is_wanted(&gpu, ids))
            gpus[(*count)++] = gpu;
    }
    if (*count > 0)
        return SMI_OK;
    printf("No devices were found\n");
    return SMI_NOT_FOUND;
}

/* The list is the caller's to free. */
struct smi_processes smi_processes(const struct smi_gpu *gpu)
{
    struct smi_processes found = {0, NULL};
    unsigned int room = 0;
    nvmlReturn_t result = gpu->handle != NULL ? nvml.DeviceGetComputeRunningProcesses_v3(gpu->handle, &room, NULL)
                                              : gpu->why;

    while (result == NVML_ERROR_INSUFFICIENT_SIZE) { /* there may be more of them at the next call */
        room += 8;
        free(found.list);
        found.list = calloc(room, sizeof *found.list);
        if (found.list == NULL)
            return found;
        found.count = room;
        result = nvml.DeviceGetComputeRunningProcesses_v3(gpu->handle, &found.count, found.list);
    }
    if (result != NVML_SUCCESS)
        found.count = 0;
    return found;
}
