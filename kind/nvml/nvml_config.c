/*
 * The config file: one statement a line, "#" starts a comment line, "end" is the last line.
 *
 *   driver 580.65.06
 *   cuda 13.0
 *   gpu index=0 minor=0 uuid=GPU-… memory=40960 cc=8.0 pci=000000FF:01:00.0 id=20B010DE name=NVIDIA A100-SXM4-40GB
 *   end
 *
 * A gpu line must have uuid, memory (MiB) and name; name comes last and runs to the end of the line.
 *   index, minor   whole numbers: NVML's index in the node, and N of /dev/nvidiaN
 *   cc             CUDA compute capability; the architecture follows from it
 *   pci            bus id
 * These may be left out:
 *   id, subsys     PCI device and subsystem id, each with the vendor's in the low half, in hexadecimal (10DE; 0)
 *   arch           architecture, as nvmlDeviceGetArchitecture numbers it (that of cc)
 *   power          power limit in watts (not supported)
 *   util           utilization in percent (not supported)
 *   used           MiB in use beside what the usage file tells (0)
 * And the GPU's health:
 *   xid=N          the GPU reported XID error N; 0: it is well. A change to another number than 0 is one event.
 *   lost=1         the GPU fell off the bus: calls on it answer NVML_ERROR_GPU_IS_LOST. health=lost says the same.
 * Unknown keys are skipped. A file without "end" is being written: the last complete one stays in force. It is
 * read again at each call, so a change takes effect at once; it must be made in place, as pods have this very
 * file mounted.
 */
#include "nvml_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

long sim_read_config(char *into, size_t size)
{
    return sim_read("KAILAB_NVML_CONFIG", "/etc/kailab/nvml.conf", into, size);
}

/* Whether the GPU's device node exists; KAILAB_NVML_DEVROOT is for tests. */
int sim_has_node(const struct sim_gpu *gpu)
{
    const char *root = getenv("KAILAB_NVML_DEVROOT");
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/dev/nvidia%u", root != NULL ? root : "", gpu->minor);

    return length > 0 && (size_t)length < sizeof path && access(path, F_OK) == 0;
}

/* NVML_DEVICE_ARCH_*: Kepler is 2, Blackwell is 10. */
static unsigned int architecture_of(unsigned int major, unsigned int minor)
{
    switch (major) {
    case 3: return 2;
    case 5: return 3;
    case 6: return 4;
    case 7: return minor < 5 ? 5 : 6;
    case 8: return minor < 9 ? 7 : 8;
    case 9: return 9;
    case 10:
    case 12: return 10;
    default: return SIM_UNSET;
    }
}

static int take(void *into, const char *key, size_t keys, const char *value, size_t values)
{
    struct sim_gpu *gpu = into;
    const struct {
        const char *key;
        int base;
        unsigned int *field;
    } numbers[] = {
        {"index", 10, &gpu->index},     {"minor", 10, &gpu->minor},         {"util", 10, &gpu->utilization},
        {"xid", 10, &gpu->xid},         {"arch", 10, &gpu->architecture},   {"power", 10, &gpu->power},
        {"id", 16, &gpu->pci_id},       {"subsys", 16, &gpu->pci_subsystem}, {"memory", 10, &gpu->memory_mib},
        {"used", 10, &gpu->used_mib},
    };
    unsigned int i;

    for (i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sim_is(key, keys, numbers[i].key))
            return sim_unsigned(value, values, numbers[i].base, numbers[i].field);
    if (sim_is(key, keys, "uuid"))
        return sim_word(value, values, gpu->uuid, sizeof gpu->uuid);
    if (sim_is(key, keys, "name"))
        return sim_word(value, values, gpu->name, sizeof gpu->name);
    if (sim_is(key, keys, "cc"))
        return sim_version(value, values, &gpu->compute_major, &gpu->compute_minor);
    if (sim_is(key, keys, "pci"))
        return sim_pci(value, values, &gpu->pci_domain, &gpu->pci_bus, &gpu->pci_device);
    if (sim_is(key, keys, "lost") || sim_is(key, keys, "health"))
        gpu->lost |= sim_is(value, values, "1") || sim_is(value, values, "lost");
    return 0;
}

static int gpu_line(struct sim_gpu *gpu, const char *text, size_t length)
{
    memset(gpu, 0, sizeof *gpu);
    gpu->utilization = gpu->power = gpu->architecture = SIM_UNSET;
    gpu->pci_id = 0x10DE; /* NVIDIA's vendor id in the low half, no device id */
    if (sim_pairs(text, length, "name", take, gpu) != 0)
        return -1;
    if (gpu->architecture == SIM_UNSET)
        gpu->architecture = architecture_of(gpu->compute_major, gpu->compute_minor);
    return gpu->uuid[0] != '\0' && gpu->name[0] != '\0' && gpu->used_mib <= gpu->memory_mib ? 0 : -1;
}

int sim_parse_config(const char *text, size_t length, struct sim_config *into)
{
    size_t at = 0;

    memset(into, 0, sizeof *into);
    while (at < length) {
        const char *line = text + at, *end = memchr(line, '\n', length - at);
        size_t size = end != NULL ? (size_t)(end - line) : length - at;

        at += size + 1;
        if (size == 0 || line[0] == '#')
            continue;
        if (sim_is(line, size, "end"))
            return into->driver[0] != '\0' ? 0 : -1;
        if (size > 7 && memcmp(line, "driver ", 7) == 0) {
            if (sim_word(line + 7, size - 7, into->driver, sizeof into->driver) != 0)
                return -1;
        } else if (size > 5 && memcmp(line, "cuda ", 5) == 0) {
            if (sim_version(line + 5, size - 5, &into->cuda_major, &into->cuda_minor) != 0)
                return -1;
        } else if (size > 4 && memcmp(line, "gpu ", 4) == 0) {
            if (into->count == SIM_MAX_GPUS || gpu_line(&into->gpus[into->count], line + 4, size - 4) != 0)
                return -1;
            into->count++;
        } else {
            return -1;
        }
    }
    return -1;
}
