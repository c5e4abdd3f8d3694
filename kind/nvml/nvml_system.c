/* NVML's calls on the library and the system: start, stop, versions, error texts, handles of devices. */
#include "nvml_sim.h"

#include <stdio.h>
#include <string.h>

nvmlReturn_t nvmlInit_v2(void)
{
    return sim_start();
}

nvmlReturn_t nvmlInit(void)
{
    return sim_start();
}

/* The flags ask for leniency about missing GPUs; without one there is no driver here either. */
nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    return sim_start();
}

nvmlReturn_t nvmlShutdown(void)
{
    return sim_stop();
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    switch ((int)result) {
    case 0: return "Success";
    case 1: return "Uninitialized";
    case 2: return "Invalid Argument";
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 5: return "Already Initialized";
    case 6: return "Not Found";
    case 7: return "Insufficient Size";
    case 8: return "Insufficient External Power";
    case 9: return "Driver Not Loaded";
    case 10: return "Timeout";
    case 11: return "Interrupt Request Issue";
    case 12: return "NVML Shared Library Not Found";
    case 13: return "Function Not Found";
    case 14: return "Corrupted infoROM";
    case 15: return "GPU is lost";
    case 16: return "GPU requires reset";
    case 17: return "GPU access blocked by the operating system";
    case 18: return "Driver/library version mismatch";
    case 19: return "In use by another client";
    case 20: return "Insufficient Memory";
    case 21: return "No data";
    case 22: return "Not supported when ECC is enabled";
    case 23: return "Insufficient resources";
    case 24: return "Frequency not supported";
    case 25: return "Argument version mismatch";
    case 26: return "Deprecated";
    case 27: return "Not ready";
    case 28: return "No GPUs found";
    case 29: return "Invalid state";
    case 30: return "Reset type not supported";
    default: return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    nvmlReturn_t result = sim_enter();

    if (result != NVML_SUCCESS)
        return result;
    result = sim_copy(version, length, sim_config()->driver);
    sim_unlock();
    return result;
}

/* NVML's own version is the API version in front of the driver's. */
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    nvmlReturn_t result = sim_enter();
    char text[96];

    if (result != NVML_SUCCESS)
        return result;
    snprintf(text, sizeof text, "%u.%s", sim_config()->cuda_major, sim_config()->driver);
    result = sim_copy(version, length, text);
    sim_unlock();
    return result;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    ENTER_ANY(version);
    *version = (int)(sim_config()->cuda_major * 1000 + sim_config()->cuda_minor * 10);
    LEAVE(NVML_SUCCESS);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return nvmlSystemGetCudaDriverVersion(version);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    nvmlDevice_t visible[SIM_MAX_GPUS];

    ENTER_ANY(count);
    *count = sim_visible(visible, SIM_MAX_GPUS);
    LEAVE(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    return nvmlDeviceGetCount_v2(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    nvmlDevice_t visible[SIM_MAX_GPUS];
    nvmlReturn_t result = NVML_SUCCESS;

    ENTER_ANY(device);
    if (index >= sim_visible(visible, SIM_MAX_GPUS))
        result = NVML_ERROR_INVALID_ARGUMENT;
    else if (visible[index]->gpu.lost)
        result = NVML_ERROR_GPU_IS_LOST;
    else
        *device = visible[index];
    LEAVE(result);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

typedef int (*matches)(const struct sim_gpu *gpu, const void *wanted);

static nvmlReturn_t handle_where(matches match, const void *wanted, nvmlDevice_t *device)
{
    nvmlDevice_t visible[SIM_MAX_GPUS];
    nvmlReturn_t result = NVML_ERROR_NOT_FOUND;
    unsigned int i, count;

    ENTER_ANY(wanted != NULL ? device : NULL);
    count = sim_visible(visible, SIM_MAX_GPUS);
    for (i = 0; i < count && result == NVML_ERROR_NOT_FOUND; i++)
        if (match(&visible[i]->gpu, wanted)) {
            result = visible[i]->gpu.lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
            if (result == NVML_SUCCESS)
                *device = visible[i];
        }
    LEAVE(result);
}

static int has_uuid(const struct sim_gpu *gpu, const void *uuid)
{
    return strcmp(gpu->uuid, uuid) == 0;
}

/* Whether the sixteen bytes are the 32 digits of the UUID. */
static int has_bytes(const struct sim_gpu *gpu, const void *bytes)
{
    char digits[33], *at = digits;
    const char *c;
    unsigned int i;

    for (c = gpu->uuid + strcspn(gpu->uuid, "-"); *c != '\0' && at < digits + 32; c++)
        if (*c != '-')
            *at++ = *c;
    *at = '\0';
    for (i = 0; i < 16; i++) {
        char byte[3];

        snprintf(byte, sizeof byte, "%02x", ((const unsigned char *)bytes)[i]);
        if (memcmp(byte, digits + 2 * i, 2) != 0)
            return 0;
    }
    return 1;
}

static int has_bus_id(const struct sim_gpu *gpu, const void *wanted)
{
    const char *text = wanted;
    unsigned int domain, bus, device;

    return sim_pci(text, strlen(text), &domain, &bus, &device) == 0 && domain == gpu->pci_domain
        && bus == gpu->pci_bus && device == gpu->pci_device;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    return handle_where(has_uuid, uuid, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    if (uuid == NULL || (uuid->type != 1 && uuid->type != 2))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (uuid->version != STRUCT_VERSION(nvmlUUID_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return handle_where(uuid->type == 1 ? has_uuid : has_bytes, &uuid->value, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    return handle_where(has_bus_id, bus_id, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
    return handle_where(has_bus_id, bus_id, device);
}
