/*
 * NVML's calls whose answer is the same for every simulated GPU, because it follows from what a simulated GPU
 * is: it shows no picture, anyone may compute on it, it cannot be cut into MIG devices, no GPU is excluded from
 * the driver, and there is no S-class unit around it.
 *
 * nvmlDeviceGetMigMode is not among them. It says "not supported", as of a GPU without MIG, also where the real
 * model has MIG: the consumers of "disabled" offer to enable it (GPU feature discovery: nvidia.com/mig.capable).
 */
#include "nvml_sim.h"

/* A value on one device that is always 0: disabled, the default, none. */
static nvmlReturn_t zero(nvmlDevice_t device, unsigned int *value)
{
    ENTER(device, value);
    *value = 0;
    LEAVE(NVML_SUCCESS);
}

#define ZERO(function)                                                                                     \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *value)                                        \
    {                                                                                                      \
        return zero(device, value);                                                                        \
    }

ZERO(nvmlDeviceGetComputeMode) /* NVML_COMPUTEMODE_DEFAULT */
ZERO(nvmlDeviceGetDisplayActive)
ZERO(nvmlDeviceGetMaxMigDeviceCount)
ZERO(nvmlDeviceIsMigDeviceHandle)

/* A number of things that are never there. */
static nvmlReturn_t none(unsigned int *count)
{
    ENTER_ANY(count);
    *count = 0;
    LEAVE(NVML_SUCCESS);
}

#define NONE(function)                                                                                     \
    nvmlReturn_t function(unsigned int *count)                                                             \
    {                                                                                                      \
        return none(count);                                                                                \
    }

NONE(nvmlGetBlacklistDeviceCount)
NONE(nvmlGetExcludedDeviceCount)
NONE(nvmlUnitGetCount)

/* The call succeeds and says of each field that it is not supported, as of fields that a GPU lacks. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    int i;

    if (count <= 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    ENTER(device, values);
    for (i = 0; i < count; i++)
        values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    LEAVE(NVML_SUCCESS);
}
