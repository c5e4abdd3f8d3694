/*
 * NVML's event sets. The one event is an XID error: a change of a GPU's xid in the config, after the GPU
 * was registered in the set, to a value other than 0. An error that happened earlier is not reported, as
 * with the real driver.
 */
#include "nvml_sim.h"

#include <stdlib.h>
#include <string.h>

#define XID_CRITICAL_ERROR 0x8ull
#define SLICE 100 /* milliseconds between two looks at the config */

struct nvmlEventSet_st {
    unsigned int count;
    struct {
        nvmlDevice_t device;
        unsigned int xid; /* as last seen */
    } watched[SIM_MAX_GPUS];
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    nvmlReturn_t result;

    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = sim_enter();
    if (result != NVML_SUCCESS)
        return result;
    sim_unlock();
    *set = calloc(1, sizeof **set);
    return *set != NULL ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    free(set);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    nvmlReturn_t result;

    if (types == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = sim_enter_device(device);
    if (result != NVML_SUCCESS)
        return result;
    sim_unlock();
    *types = XID_CRITICAL_ERROR;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    nvmlReturn_t result;
    unsigned int i;

    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((types & ~XID_CRITICAL_ERROR) != 0)
        return NVML_ERROR_NOT_SUPPORTED;
    result = sim_enter_device(device);
    if (result != NVML_SUCCESS)
        return result;
    for (i = 0; i < set->count && set->watched[i].device != device; i++)
        ;
    if (i == SIM_MAX_GPUS) {
        result = NVML_ERROR_INSUFFICIENT_RESOURCES;
    } else if (i == set->count && types != 0) {
        set->watched[i].device = device;
        set->watched[i].xid = device->gpu.xid;
        set->count++;
    }
    sim_unlock();
    return result;
}

/* Fills in the next event that is there already; NVML_ERROR_TIMEOUT when there is none. */
static nvmlReturn_t next_event(nvmlEventSet_t set, nvmlEventData_t *data)
{
    nvmlReturn_t result = sim_enter();
    unsigned int i;

    if (result != NVML_SUCCESS)
        return result;
    result = NVML_ERROR_TIMEOUT;
    for (i = 0; i < set->count && result == NVML_ERROR_TIMEOUT; i++) {
        nvmlDevice_t device = set->watched[i].device;

        if (device->gpu.xid == set->watched[i].xid)
            continue;
        set->watched[i].xid = device->gpu.xid;
        if (device->gpu.xid == 0)
            continue;
        memset(data, 0, sizeof *data);
        data->device = device;
        data->eventType = XID_CRITICAL_ERROR;
        data->eventData = device->gpu.xid;
        data->gpuInstanceId = 0xFFFFFFFFu;
        data->computeInstanceId = 0xFFFFFFFFu;
        result = NVML_SUCCESS;
    }
    sim_unlock();
    return result;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout)
{
    nvmlReturn_t result;
    unsigned int left = timeout;

    if (set == NULL || data == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    while ((result = next_event(set, data)) == NVML_ERROR_TIMEOUT && left > 0) {
        unsigned int slice = left < SLICE ? left : SLICE;

        sim_nap(slice);
        left -= slice;
    }
    return result;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout)
{
    nvmlEventData_t full;
    nvmlReturn_t result;

    if (data == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = nvmlEventSetWait_v2(set, &full, timeout);
    if (result == NVML_SUCCESS)
        memcpy(data, &full, offsetof(nvmlEventData_t, gpuInstanceId));
    return result;
}
