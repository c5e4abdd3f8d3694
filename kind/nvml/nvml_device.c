/*
 * NVML's calls on what a device is. What a process may have asked earlier (UUID, index, minor number, bus id) is
 * answered of a lost GPU too, by the handle that it has: NVML knows it without the GPU. The device plugin needs
 * it to tell which GPU an XID came from (k8s-device-plugin v0.18, internal/rm/health.go).
 */
#include "nvml_sim.h"

#include <stdio.h>
#include <string.h>

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

    ENTER_KNOWN(device, uuid);
    result = sim_copy(uuid, length, device->gpu.uuid);
    LEAVE(result);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    ENTER_KNOWN(device, minor);
    *minor = device->gpu.minor;
    LEAVE(NVML_SUCCESS);
}

/* The index counts what is visible here: it differs between a node and its pods, as with the real driver. */
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    nvmlDevice_t visible[SIM_MAX_GPUS];
    nvmlReturn_t result = NVML_ERROR_NOT_FOUND;
    unsigned int i, count;

    ENTER_KNOWN(device, index);
    count = sim_visible(visible, SIM_MAX_GPUS);
    for (i = 0; i < count; i++)
        if (visible[i] == device) {
            *index = i;
            result = NVML_SUCCESS;
        }
    LEAVE(result);
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
    pci->pciSubSystemId = gpu->pci_subsystem;
}

/* The versions differ in length only: what is filled is the first `size` bytes of the newest. */
static nvmlReturn_t pci_info(nvmlDevice_t device, void *into, size_t size)
{
    nvmlPciInfo_t pci;

    ENTER_KNOWN(device, into);
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

    ENTER_KNOWN(device, ext);
    if (ext->version != STRUCT_VERSION(nvmlPciInfoExt_t, 1))
        LEAVE(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    bus_ids(&device->gpu, &pci);
    ext->domain = pci.domain;
    ext->bus = pci.bus;
    ext->device = pci.device;
    ext->pciDeviceId = pci.pciDeviceId;
    ext->pciSubSystemId = pci.pciSubSystemId;
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

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *architecture)
{
    ENTER(device, architecture);
    *architecture = device->gpu.architecture; /* SIM_UNSET is NVML_DEVICE_ARCH_UNKNOWN */
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

/* NVML_TOPOLOGY_INTERNAL (0) with itself, otherwise NVML_TOPOLOGY_NODE (40): one NUMA node. */
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned int *level)
{
    ENTER(one, level);
    sim_unlock();
    ENTER(other, level);
    *level = one == other ? 0 : 40;
    LEAVE(NVML_SUCCESS);
}

/* The limit that the model has; nothing changes it. In milliwatts. */
static nvmlReturn_t power_limit(nvmlDevice_t device, unsigned int *limit)
{
    ENTER(device, limit);
    if (device->gpu.power == SIM_UNSET)
        LEAVE(NVML_ERROR_NOT_SUPPORTED);
    *limit = device->gpu.power * 1000;
    LEAVE(NVML_SUCCESS);
}

#define POWER_LIMIT(function)                                                                              \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *limit)                                        \
    {                                                                                                      \
        return power_limit(device, limit);                                                                 \
    }

POWER_LIMIT(nvmlDeviceGetEnforcedPowerLimit)
POWER_LIMIT(nvmlDeviceGetPowerManagementDefaultLimit)
POWER_LIMIT(nvmlDeviceGetPowerManagementLimit)
