/* NVML's calls on what runs on a device: memory, utilization, processes. */
#include "nvml_sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* All that is in use on the GPU, whoever uses it; never more than there is. */
static unsigned long long used_mib(const struct sim_gpu *gpu)
{
    const struct sim_usage *usage = sim_usage();
    unsigned long long sum = gpu->used_mib;
    unsigned int i;

    for (i = 0; i < usage->count; i++)
        if (strcmp(usage->processes[i].uuid, gpu->uuid) == 0)
            sum += usage->processes[i].memory_mib;
    return sum < gpu->memory_mib ? sum : gpu->memory_mib;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    ENTER(device, memory);
    memory->total = device->gpu.memory_mib * MIB;
    memory->used = used_mib(&device->gpu) * MIB;
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
    memory->used = used_mib(&device->gpu) * MIB;
    memory->free = memory->total - memory->used;
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

/* The PID namespace of the calling process, by inode; 0 where /proc does not tell. */
static unsigned int own_pidns(void)
{
    char link[64];
    ssize_t length = readlink("/proc/self/ns/pid", link, sizeof link);
    unsigned int inode = 0;

    if (length < 7 || memcmp(link, "pid:[", 5) != 0 || sim_unsigned(link + 5, (size_t)length - 6, 10, &inode) != 0)
        return 0;
    return inode;
}

/*
 * Which processes a caller sees: in the node all, by the node's numbers; in a container those of its own PID
 * namespace, by their numbers there. The real driver lists foreign ones too, by numbers that name nothing in
 * the container (NVIDIA/nvidia-docker#179), and nvidia-smi then leaves them out.
 */
static unsigned int number_here(const struct sim_process *process, unsigned int node, unsigned int here)
{
    if (here == node || here == 0)
        return process->pid;
    return process->pidns == here ? process->inner : 0;
}

/* size: of one entry, which version 1 cuts short. */
static nvmlReturn_t processes(nvmlDevice_t device, unsigned int *count, void *infos, size_t size)
{
    const struct sim_usage *usage;
    nvmlReturn_t result = NVML_SUCCESS;
    unsigned int i, pid, found = 0, room, here = own_pidns();

    ENTER(device, count);
    usage = sim_usage();
    room = infos != NULL ? *count : 0;
    for (i = 0; i < usage->count; i++) {
        const struct sim_process *process = &usage->processes[i];

        if (strcmp(process->uuid, device->gpu.uuid) != 0 || (pid = number_here(process, usage->pidns, here)) == 0)
            continue;
        if (found < room) {
            nvmlProcessInfo_t info = {pid, process->memory_mib * MIB, SIM_UNSET, SIM_UNSET};

            memcpy((char *)infos + found * size, &info, size);
        }
        found++;
    }
    if (found > room)
        result = NVML_ERROR_INSUFFICIENT_SIZE;
    *count = found;
    LEAVE(result);
}

#define SHORT offsetof(nvmlProcessInfo_t, gpuInstanceId)
#define FULL sizeof(nvmlProcessInfo_t)

#define PROCESSES(function, size)                                                                          \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, void *infos)                           \
    {                                                                                                      \
        return processes(device, count, infos, size);                                                      \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses, SHORT)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, FULL)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, FULL)

/* Nobody draws on a simulated GPU, and there is no MPS: these lists are empty. */
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

NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

/* The first word of its command line, cut to what fits. */
nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    char path[64];
    ssize_t got;
    int file;
    nvmlReturn_t result;

    if (name == NULL || length == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = sim_enter();
    if (result != NVML_SUCCESS)
        return result;
    sim_unlock();
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NVML_ERROR_NOT_FOUND;
    got = read(file, name, length - 1);
    close(file);
    if (got <= 0)
        return NVML_ERROR_NOT_FOUND;
    name[got] = '\0';
    return NVML_SUCCESS;
}
