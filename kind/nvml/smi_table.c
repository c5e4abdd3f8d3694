/* nvidia-smi without arguments: the table of driver 580, whose widths are those of published tables. */
#include "smi.h"

#include "nvml_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RULE "+-----------------------------------------------------------------------------------------+\n"
#define GRID "+-----------------------------------------+------------------------+----------------------+\n"
#define HEAVY "|=========================================+========================+======================|\n"

/* Fixed texts for what simulated GPUs lack: persistence, ECC, fan, temperature, power draw, MIG. */
static void gpu_rows(const struct smi_gpu *gpu)
{
    char name[32], limit[16] = "N/A ", used[32], total[32], busy[16] = "N/A";

    snprintf(name, sizeof name, strlen(gpu->name) > 27 ? "%.24s..." : "%s", gpu->name);
    snprintf(used, sizeof used, "%lluMiB", gpu->memory.used / MIB);
    snprintf(total, sizeof total, "%lluMiB", gpu->memory.total / MIB);
    if (gpu->has_power)
        snprintf(limit, sizeof limit, "%uW", gpu->power / 1000);
    if (gpu->has_utilization)
        snprintf(busy, sizeof busy, "%u%%", gpu->utilization.gpu);
    printf("|%4u  %-27s   N/A  |   %-16s Off |                  N/A |\n", gpu->index, name, gpu->pci.busId);
    printf("| N/A   N/A  N/A             N/A  / %5s |%11s / %9s |%8s      Default |\n", limit, used, total, busy);
    printf("|                                         |                        |                  N/A |\n" GRID);
}

static void process_row(const struct smi_gpu *gpu, const nvmlProcessInfo_t *info)
{
    char name[256], memory[32], shown[64];

    if (nvml.SystemGetProcessName(info->pid, name, sizeof name) != NVML_SUCCESS)
        strcpy(name, "[Not Found]");
    if (strlen(name) > 32)
        snprintf(shown, sizeof shown, "...%s", name + strlen(name) - 29);
    else
        strcpy(shown, name);
    snprintf(memory, sizeof memory, "%lluMiB", info->usedGpuMemory / MIB);
    if (strlen(memory) > 8)
        strcpy(memory + 5, "...");
    printf("|%5u   N/A  N/A %15u      C   %-32s      %8s |\n", gpu->index, info->pid, shown, memory);
}

/* Returns how many there are. */
static unsigned int process_rows(const struct smi_gpu *gpu)
{
    static nvmlProcessInfo_t list[SIM_MAX_PROCESSES];
    unsigned int count = SIM_MAX_PROCESSES, i;

    if (gpu->why != NVML_SUCCESS
        || nvml.DeviceGetComputeRunningProcesses_v3(gpu->handle, &count, list) != NVML_SUCCESS)
        return 0;
    for (i = 0; i < count; i++)
        process_row(gpu, &list[i]);
    return count;
}

void smi_table(const struct smi_gpus *gpus)
{
    char driver[80] = "N/A", cuda[32] = "N/A", day[64];
    unsigned int i, running = 0;
    time_t now = time(NULL);
    struct tm here;
    int version = 0;

    for (i = 0; i < gpus->count; i++)
        if (gpus->list[i].why != NVML_SUCCESS)
            smi_say_lost(&gpus->list[i]);
    nvml.SystemGetDriverVersion(driver, sizeof driver);
    if (nvml.SystemGetCudaDriverVersion_v2(&version) == NVML_SUCCESS)
        snprintf(cuda, sizeof cuda, "%d.%d", version / 1000, version % 1000 / 10);
    localtime_r(&now, &here);
    strftime(day, sizeof day, "%a %b %e %H:%M:%S %Y", &here);
    printf("%s       \n" RULE "| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n", day, driver,
           driver, cuda);
    printf(GRID "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
                "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
                "|                                         |                        |               MIG M. |\n" HEAVY);
    for (i = 0; i < gpus->count; i++)
        if (gpus->list[i].why == NVML_SUCCESS)
            gpu_rows(&gpus->list[i]);
    printf("\n" RULE "| Processes:%78s|\n", "");
    printf("|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
           "|        ID   ID                                                               Usage      |\n"
           "|=========================================================================================|\n");
    for (i = 0; i < gpus->count; i++)
        running += process_rows(&gpus->list[i]);
    if (running == 0)
        printf("|  No running processes found                                                             |\n");
    printf(RULE);
}
