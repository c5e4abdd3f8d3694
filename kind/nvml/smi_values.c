/* nvidia-smi: the single values, as text and without units. */
#include "smi.h"

#include "nvml_sim.h"

#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define VALUE(name) nvmlReturn_t smi_##name(const struct smi_subject *subject, char *text, size_t size)
#define GPU (subject->gpu->handle)

static nvmlReturn_t put(nvmlReturn_t result, char *text, size_t size, const char *word)
{
    if (result == NVML_SUCCESS)
        snprintf(text, size, "%s", word);
    return result;
}

static nvmlReturn_t put_number(nvmlReturn_t result, char *text, size_t size, const char *format, unsigned int value)
{
    if (result == NVML_SUCCESS)
        snprintf(text, size, format, value);
    return result;
}

static const char *word_of(const char *const *words, size_t count, unsigned int value, const char *otherwise)
{
    return value < count && words[value] != NULL ? words[value] : otherwise;
}

#define WORD(words, value, otherwise) word_of(words, sizeof words / sizeof *words, value, otherwise)

static const char *const SWITCH[] = {"Disabled", "Enabled"};
static const char *const COMPUTE_MODES[] = {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"};
static const char *const BRANDS[] = {
    NULL, "Quadro", "Tesla", "NVS", "GRID", "GeForce", "Titan", "NVIDIA Virtual Applications",
    "NVIDIA Virtual PC", "NVIDIA Virtual Compute Server", "NVIDIA RTX Virtual Workstation",
    "NVIDIA Cloud Gaming", "Quadro RTX", "NVIDIA RTX", "NVIDIA", "GeForce RTX", "Titan RTX"};
static const char *const ARCHITECTURES[] = {NULL,     NULL,     "Kepler", "Maxwell", "Pascal", "Volta",
                                            "Turing", "Ampere", "Ada Lovelace", "Hopper", "Blackwell"};

VALUE(timestamp)
{
    struct timeval now;
    struct tm here;
    char day[32];

    (void)subject;
    gettimeofday(&now, NULL);
    localtime_r(&now.tv_sec, &here);
    strftime(day, sizeof day, "%Y/%m/%d %H:%M:%S", &here);
    snprintf(text, size, "%s.%03d", day, (int)(now.tv_usec / 1000));
    return NVML_SUCCESS;
}

VALUE(driver_version)
{
    (void)subject;
    return nvml.SystemGetDriverVersion(text, (unsigned int)size);
}

VALUE(count)
{
    unsigned int count = 0;

    (void)subject;
    return put_number(nvml.DeviceGetCount_v2(&count), text, size, "%u", count);
}

#define TEXT_VALUE(name, function)                                                                         \
    VALUE(name)                                                                                            \
    {                                                                                                      \
        return nvml.function(GPU, text, (unsigned int)size);                                               \
    }

TEXT_VALUE(name, DeviceGetName)
TEXT_VALUE(serial, DeviceGetSerial)
TEXT_VALUE(uuid, DeviceGetUUID)
TEXT_VALUE(vbios, DeviceGetVbiosVersion)

VALUE(index)
{
    return put_number(NVML_SUCCESS, text, size, "%u", subject->gpu->index);
}

#define NUMBER_VALUE(name, function, format)                                                               \
    VALUE(name)                                                                                            \
    {                                                                                                      \
        unsigned int value = 0;                                                                            \
        nvmlReturn_t result = nvml.function(GPU, &value);                                                  \
        return put_number(result, text, size, format, value);                                              \
    }

NUMBER_VALUE(minor, DeviceGetMinorNumber, "%u")
NUMBER_VALUE(fan_speed, DeviceGetFanSpeed, "%u")
NUMBER_VALUE(pstate, DeviceGetPerformanceState, "P%u")

#define WORD_VALUE(name, function, words, otherwise)                                                       \
    VALUE(name)                                                                                            \
    {                                                                                                      \
        unsigned int value = 0;                                                                            \
        nvmlReturn_t result = nvml.function(GPU, &value);                                                  \
        return put(result, text, size, WORD(words, value, otherwise));                                     \
    }

WORD_VALUE(brand, DeviceGetBrand, BRANDS, "Unknown")
WORD_VALUE(architecture, DeviceGetArchitecture, ARCHITECTURES, "Unknown")
WORD_VALUE(compute_mode, DeviceGetComputeMode, COMPUTE_MODES, "Unknown")
WORD_VALUE(persistence_mode, DeviceGetPersistenceMode, SWITCH, "Unknown")
WORD_VALUE(display_active, DeviceGetDisplayActive, SWITCH, "Unknown")

VALUE(bus_id)
{
    nvmlPciInfo_t pci;
    nvmlReturn_t result = nvml.DeviceGetPciInfo_v3(GPU, &pci);

    return put(result, text, size, pci.busId);
}

#define PCI_VALUE(name, format, field)                                                                     \
    VALUE(name)                                                                                            \
    {                                                                                                      \
        nvmlPciInfo_t pci = {0};                                                                           \
        nvmlReturn_t result = nvml.DeviceGetPciInfo_v3(GPU, &pci);                                         \
        return put_number(result, text, size, format, pci.field);                                          \
    }

PCI_VALUE(pci_domain, "0x%04X", domain)
PCI_VALUE(pci_bus, "0x%02X", bus)
PCI_VALUE(pci_device, "0x%02X", device)
PCI_VALUE(pci_device_id, "0x%08X", pciDeviceId)
PCI_VALUE(pci_sub_device_id, "0x%08X", pciSubSystemId)

#define CLASS_VALUE(name, field)                                                                           \
    VALUE(name)                                                                                            \
    {                                                                                                      \
        nvmlPciInfoExt_t pci = {.version = STRUCT_VERSION(nvmlPciInfoExt_t, 1)};                           \
        nvmlReturn_t result = nvml.DeviceGetPciInfoExt(GPU, &pci);                                         \
        return put_number(result, text, size, "0x%X", pci.field);                                          \
    }

CLASS_VALUE(pci_base_class, baseClass)
CLASS_VALUE(pci_sub_class, subClass)

VALUE(compute_cap)
{
    int major = 0, minor = 0;
    nvmlReturn_t result = nvml.DeviceGetCudaComputeCapability(GPU, &major, &minor);

    if (result == NVML_SUCCESS)
        snprintf(text, size, "%d.%d", major, minor);
    return result;
}

#define MEMORY_VALUE(name, field)                                                                          \
    VALUE(name)                                                                                            \
    {                                                                                                      \
        nvmlMemory_v2_t memory = {.version = STRUCT_VERSION(nvmlMemory_v2_t, 2)};                          \
        nvmlReturn_t result = nvml.DeviceGetMemoryInfo_v2(GPU, &memory);                                   \
        return put_number(result, text, size, "%u", (unsigned int)(memory.field / MIB));                   \
    }

MEMORY_VALUE(memory_total, total)
MEMORY_VALUE(memory_reserved, reserved)
MEMORY_VALUE(memory_used, used)
MEMORY_VALUE(memory_free, free)

#define UTILIZATION_VALUE(name, field)                                                                     \
    VALUE(name)                                                                                            \
    {                                                                                                      \
        nvmlUtilization_t utilization = {0, 0};                                                            \
        nvmlReturn_t result = nvml.DeviceGetUtilizationRates(GPU, &utilization);                           \
        return put_number(result, text, size, "%u", utilization.field);                                    \
    }

UTILIZATION_VALUE(utilization_gpu, gpu)
UTILIZATION_VALUE(utilization_memory, memory)

VALUE(temperature)
{
    unsigned int degrees = 0;
    nvmlReturn_t result = nvml.DeviceGetTemperature(GPU, 0, &degrees);

    return put_number(result, text, size, "%u", degrees);
}

/* NVML has milliwatts. */
#define POWER_VALUE(name, function)                                                                        \
    VALUE(name)                                                                                            \
    {                                                                                                      \
        unsigned int milliwatts = 0;                                                                       \
        nvmlReturn_t result = nvml.function(GPU, &milliwatts);                                             \
        if (result == NVML_SUCCESS)                                                                        \
            snprintf(text, size, "%u.%02u", milliwatts / 1000, milliwatts % 1000 / 10);                    \
        return result;                                                                                     \
    }

POWER_VALUE(power_draw, DeviceGetPowerUsage)
POWER_VALUE(power_limit, DeviceGetPowerManagementLimit)
POWER_VALUE(power_enforced, DeviceGetEnforcedPowerLimit)
POWER_VALUE(power_default, DeviceGetPowerManagementDefaultLimit)

/* NVML_CLOCK_*: graphics 0, SM 1, memory 2, video 3. */
#define CLOCK_VALUE(name, function, kind)                                                                  \
    VALUE(name)                                                                                            \
    {                                                                                                      \
        unsigned int megahertz = 0;                                                                        \
        nvmlReturn_t result = nvml.function(GPU, kind, &megahertz);                                        \
        return put_number(result, text, size, "%u", megahertz);                                            \
    }

CLOCK_VALUE(clock_graphics, DeviceGetClockInfo, 0)
CLOCK_VALUE(clock_sm, DeviceGetClockInfo, 1)
CLOCK_VALUE(clock_memory, DeviceGetClockInfo, 2)
CLOCK_VALUE(clock_video, DeviceGetClockInfo, 3)
CLOCK_VALUE(max_clock_graphics, DeviceGetMaxClockInfo, 0)
CLOCK_VALUE(max_clock_sm, DeviceGetMaxClockInfo, 1)
CLOCK_VALUE(max_clock_memory, DeviceGetMaxClockInfo, 2)
CLOCK_VALUE(max_clock_video, DeviceGetMaxClockInfo, 3)

#define MODE_VALUE(name, function, which)                                                                  \
    VALUE(name)                                                                                            \
    {                                                                                                      \
        unsigned int modes[2] = {0, 0};                                                                    \
        nvmlReturn_t result = nvml.function(GPU, &modes[0], &modes[1]);                                    \
        return put(result, text, size, WORD(SWITCH, modes[which], "Unknown"));                             \
    }

MODE_VALUE(ecc_current, DeviceGetEccMode, 0)
MODE_VALUE(ecc_pending, DeviceGetEccMode, 1)
MODE_VALUE(mig_current, DeviceGetMigMode, 0)
MODE_VALUE(mig_pending, DeviceGetMigMode, 1)

VALUE(pid)
{
    return put_number(NVML_SUCCESS, text, size, "%u", subject->process->pid);
}

VALUE(process_name)
{
    return nvml.SystemGetProcessName(subject->process->pid, text, (unsigned int)size);
}

VALUE(process_memory)
{
    return put_number(NVML_SUCCESS, text, size, "%u", (unsigned int)(subject->process->usedGpuMemory / MIB));
}
