/* nvidia-smi: the library, and the GPUs it knows. */
#include "smi.h"

#include "nvml_sim.h"

#include <dlfcn.h>
#include <stdio.h>
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

/* Bus id of a GPU without an NVML handle, from the config, which replaces the kernel's list. */
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
    unsigned int number, domain, bus, device;

    if (sim_unsigned(id, length, 10, &number) == 0)
        return number == gpu->index;
    if (gpu->why != NVML_SUCCESS)
        return 0;
    if (sim_pci(id, length, &domain, &bus, &device) == 0)
        return gpu->pci.domain == domain && gpu->pci.bus == bus && gpu->pci.device == device;
    return sim_is(id, length, gpu->uuid);
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

static void ask(struct smi_gpu *gpu)
{
    gpu->memory.version = STRUCT_VERSION(nvmlMemory_v2_t, 2);
    gpu->why = nvml.DeviceGetHandleByIndex_v2(gpu->index, &gpu->handle);
    if (gpu->why == NVML_SUCCESS)
        gpu->why = nvml.DeviceGetName(gpu->handle, gpu->name, sizeof gpu->name);
    if (gpu->why == NVML_SUCCESS)
        gpu->why = nvml.DeviceGetUUID(gpu->handle, gpu->uuid, sizeof gpu->uuid);
    if (gpu->why == NVML_SUCCESS)
        gpu->why = nvml.DeviceGetPciInfo_v3(gpu->handle, &gpu->pci);
    if (gpu->why == NVML_SUCCESS)
        gpu->why = nvml.DeviceGetCudaComputeCapability(gpu->handle, &gpu->major, &gpu->minor);
    if (gpu->why == NVML_SUCCESS)
        gpu->why = nvml.DeviceGetMemoryInfo_v2(gpu->handle, &gpu->memory);
    if (gpu->why != NVML_SUCCESS)
        return;
    gpu->has_utilization = nvml.DeviceGetUtilizationRates(gpu->handle, &gpu->utilization) == NVML_SUCCESS;
    gpu->has_power = nvml.DeviceGetEnforcedPowerLimit(gpu->handle, &gpu->power) == NVML_SUCCESS;
}

int smi_look(const char *ids, struct smi_gpus *gpus)
{
    unsigned int i;

    memset(gpus, 0, sizeof *gpus);
    nvml.DeviceGetCount_v2(&gpus->all);
    for (i = 0; i < gpus->all && gpus->count < SMI_MAX_GPUS; i++) {
        struct smi_gpu gpu = {.index = i};

        ask(&gpu);
        if (is_wanted(&gpu, ids))
            gpus->list[gpus->count++] = gpu;
    }
    if (gpus->count > 0)
        return SMI_OK;
    printf("No devices were found\n");
    return SMI_NOT_FOUND;
}
