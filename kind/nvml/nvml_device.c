/* NVML's calls on one device. */
#include "nvml_sim.h"

#include <stdio.h>
#include <string.h>

#define MIB (1024ull * 1024)

/* Takes the lock and leaves the function when the device cannot be asked. */
#define ENTER(device, pointer)                                                                             \
    do {                                                                                                   \
        nvmlReturn_t entered = (pointer) != NULL ? sim_enter_device(device) : NVML_ERROR_INVALID_ARGUMENT; \
        if (entered != NVML_SUCCESS)                                                                       \
            return entered;                                                                                \
    } while (0)

#define LEAVE(result)                                                                                      \
    do {                                                                                                   \
        sim_unlock();                                                                                      \
        return result;                                                                                     \
    } while (0)

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    nvmlReturn_t result;

    ENTER(device, name);
    result = sim_copy(name, length, device->gpu.name);
    LEAVE(result);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    nvmlReturn_t result;

    ENTER(device, uuid);
    result = sim_copy(uuid, length, device->gpu.uuid);
    LEAVE(result);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    ENTER(device, minor);
    *minor = device->gpu.minor;
    LEAVE(NVML_SUCCESS);
}

/* The index counts what is visible here: it differs between a node and its pods, as with the real driver. */
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    nvmlDevice_t visible[SIM_MAX_GPUS];
    nvmlReturn_t result = NVML_ERROR_NOT_FOUND;
    unsigned int i, count;

    ENTER(device, index);
    count = sim_visible(visible, SIM_MAX_GPUS);
    for (i = 0; i < count; i++)
        if (visible[i] == device) {
            *index = i;
            result = NVML_SUCCESS;
        }
    LEAVE(result);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    ENTER(device, memory);
    memory->total = device->gpu.memory_mib * MIB;
    memory->used = device->gpu.used_mib * MIB;
    memory->free = memory->total - memory->used;
    LEAVE(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    ENTER(device, memory);
    if (memory->version != STRUCT_VERSION(nvmlMemory_v2_t, 2))
        LEAVE(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    memory->total = device->gpu.memory_mib * MIB;
    memory->reserved = 0;
    memory->used = device->gpu.used_mib * MIB;
    memory->free = memory->total - memory->used;
    LEAVE(NVML_SUCCESS);
}

static void bus_ids(const struct sim_gpu *gpu, nvmlPciInfo_t *pci)
{
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", gpu->pci_domain & 0xFFFF,
             gpu->pci_bus & 0xFF, gpu->pci_device & 0x1F);
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", gpu->pci_domain, gpu->pci_bus & 0xFF,
             gpu->pci_device & 0x1F);
    pci->domain = gpu->pci_domain;
    pci->bus = gpu->pci_bus;
    pci->device = gpu->pci_device;
    pci->pciDeviceId = gpu->pci_id;
}

/* The versions differ in length only: what is filled is the first `size` bytes of the newest. */
static nvmlReturn_t pci_info(nvmlDevice_t device, void *into, size_t size)
{
    nvmlPciInfo_t pci;

    ENTER(device, into);
    bus_ids(&device->gpu, &pci);
    memcpy(into, &pci, size);
    LEAVE(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return pci_info(device, pci, offsetof(nvmlPciInfo_t, pciSubSystemId));
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return pci_info(device, pci, offsetof(nvmlPciInfo_t, busId));
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return pci_info(device, pci, sizeof *pci);
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *ext)
{
    nvmlPciInfo_t pci;

    ENTER(device, ext);
    if (ext->version != STRUCT_VERSION(nvmlPciInfoExt_t, 1))
        LEAVE(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    bus_ids(&device->gpu, &pci);
    ext->domain = pci.domain;
    ext->bus = pci.bus;
    ext->device = pci.device;
    ext->pciDeviceId = pci.pciDeviceId;
    ext->pciSubSystemId = 0;
    ext->baseClass = 3; /* display controller, 3D */
    ext->subClass = 2;
    memcpy(ext->busId, pci.busId, sizeof ext->busId);
    LEAVE(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    ENTER(device, major != NULL ? minor : NULL);
    *major = (int)device->gpu.compute_major;
    *minor = (int)device->gpu.compute_minor;
    LEAVE(NVML_SUCCESS);
}

/* NVML_DEVICE_ARCH_*: Kepler is 2, Blackwell is 10. */
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *architecture)
{
    ENTER(device, architecture);
    switch (device->gpu.compute_major) {
    case 3: *architecture = 2; break;
    case 5: *architecture = 3; break;
    case 6: *architecture = 4; break;
    case 7: *architecture = device->gpu.compute_minor < 5 ? 5 : 6; break;
    case 8: *architecture = device->gpu.compute_minor < 9 ? 7 : 8; break;
    case 9: *architecture = 9; break;
    case 10:
    case 12: *architecture = 10; break;
    default: *architecture = 0xFFFFFFFFu;
    }
    LEAVE(NVML_SUCCESS);
}

/* NVML_BRAND_*, from the product name. */
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned int *brand)
{
    static const struct {
        const char *word;
        unsigned int brand;
    } brands[] = {{"Tesla", 2}, {"GeForce", 5}, {"TITAN", 6}, {"Quadro RTX", 12}, {"Quadro", 1}, {"RTX", 13}};
    size_t i;

    ENTER(device, brand);
    *brand = 14; /* NVIDIA */
    for (i = 0; i < sizeof brands / sizeof *brands; i++)
        if (strstr(device->gpu.name, brands[i].word) != NULL) {
            *brand = brands[i].brand;
            break;
        }
    LEAVE(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    ENTER(device, utilization);
    if (device->gpu.utilization == SIM_UNSET)
        LEAVE(NVML_ERROR_NOT_SUPPORTED);
    utilization->gpu = device->gpu.utilization;
    utilization->memory = 0;
    LEAVE(NVML_SUCCESS);
}

/* NVML_TOPOLOGY_INTERNAL (0) with itself, otherwise NVML_TOPOLOGY_NODE (40): one NUMA node. */
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned int *level)
{
    ENTER(one, level);
    sim_unlock();
    ENTER(other, level);
    *level = one == other ? 0 : 40;
    LEAVE(NVML_SUCCESS);
}

/* Nothing runs on a simulated GPU: all versions of the process lists are empty. */
static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned int *count)
{
    ENTER(device, count);
    *count = 0;
    LEAVE(NVML_SUCCESS);
}

#define NO_PROCESSES(function)                                                                             \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, void *infos)                           \
    {                                                                                                      \
        (void)infos;                                                                                       \
        return no_processes(device, count);                                                                \
    }

NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)
