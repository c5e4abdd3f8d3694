/*
 * nvidia-smi without arguments: the table of driver 580.
 *
 * Each cell is written into its columns: "%4s" and the like are widths that published tables show, also for
 * cells that say "N/A" or "ERR!".
 */
#include "smi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RULE "+-----------------------------------------------------------------------------------------+\n"
#define GRID "+-----------------------------------------+------------------------+----------------------+\n"
#define HEAVY "|=========================================+========================+======================|\n"

#define CELL 128
#define LONGEST_UNIT 8

/* The value with a unit behind it, or why there is none; text has room for CELL. */
static const char *cell(smi_getter get, const struct smi_gpu *gpu, const char *unit, char *text)
{
    const struct smi_subject subject = {gpu, NULL};

    switch (get(&subject, text, CELL - LONGEST_UNIT)) {
    case NVML_SUCCESS: return strcat(text, unit);
    case NVML_ERROR_NOT_SUPPORTED: return "N/A";
    default: return "ERR!";
    }
}

/* "On" and "Off" as the columns of modes say it. */
static const char *on_off(const char *word)
{
    return strcmp(word, "Enabled") == 0 ? "On" : strcmp(word, "Disabled") == 0 ? "Off" : word;
}

/* In some columns "N/A" has a blank behind it. */
static const char *to_the_left(const char *text)
{
    return strcmp(text, "N/A") == 0 ? "N/A " : text;
}

/* Uncorrected errors since the driver was loaded; "Off" where ECC is off. */
static const char *ecc(const struct smi_gpu *gpu, char *text, size_t size)
{
    unsigned int current = 0, pending = 0;
    unsigned long long errors = 0;

    switch (nvml.DeviceGetEccMode(gpu->handle, &current, &pending)) {
    case NVML_SUCCESS: break;
    case NVML_ERROR_NOT_SUPPORTED: return "N/A";
    default: return "ERR!";
    }
    if (current == 0)
        return "Off";
    if (nvml.DeviceGetTotalEccErrors(gpu->handle, 1, 0, &errors) != NVML_SUCCESS)
        return "N/A";
    snprintf(text, size, "%llu", errors);
    return text;
}

/* Watts without what stands behind the point. */
static const char *watts(smi_getter get, const struct smi_gpu *gpu, char *text)
{
    char value[CELL];
    const char *found = cell(get, gpu, "", value);

    if (found != value)
        return to_the_left(found);
    snprintf(text, CELL, "%.*sW", (int)strcspn(value, "."), value);
    return text;
}

/* On and Off begin in the same column. */
static const char *persistence(const struct smi_gpu *gpu)
{
    char mode[CELL];
    const char *word = on_off(cell(smi_persistence_mode, gpu, "", mode));

    return strcmp(word, "On") == 0 ? "On " : to_the_left(word);
}

static void identity(const struct smi_gpu *gpu)
{
    char name[CELL], bus[CELL], display[CELL], errors[32];
    const char *shown = cell(smi_name, gpu, "", name);

    if (strlen(shown) > 27)
        strcpy(name + 24, "...");
    printf("|%4u  %-27s   %4s |", gpu->index, shown, persistence(gpu));
    printf("   %-16s%4s |", cell(smi_bus_id, gpu, "", bus), on_off(cell(smi_display_active, gpu, "", display)));
    printf(" %20s |\n", ecc(gpu, errors, sizeof errors));
}

static void load(const struct smi_gpu *gpu)
{
    char fan[CELL], heat[CELL], state[CELL], drawn[CELL], limit[CELL], used[CELL], total[CELL], busy[CELL], mode[CELL];
    const char *compute = cell(smi_compute_mode, gpu, "", mode);

    if (strcmp(compute, "Exclusive_Process") == 0)
        compute = "E. Process";
    printf("|%4s  %4s  ", cell(smi_fan_speed, gpu, "%", fan), cell(smi_temperature, gpu, "C", heat));
    printf("%4s           %5s / %5s |", to_the_left(cell(smi_pstate, gpu, "", state)),
           watts(smi_power_draw, gpu, drawn), watts(smi_power_enforced, gpu, limit));
    printf("%11s / %9s |", cell(smi_memory_used, gpu, "MiB", used), cell(smi_memory_total, gpu, "MiB", total));
    printf("%8s%13s |\n", cell(smi_utilization_gpu, gpu, "%", busy), compute);
}

static void mig(const struct smi_gpu *gpu)
{
    char mode[CELL];

    printf("|%41s|%24s| %20s |\n", "", "", cell(smi_mig_current, gpu, "", mode));
}

static void process(const struct smi_gpu *gpu, const nvmlProcessInfo_t *info)
{
    const struct smi_subject subject = {gpu, info};
    char name[SMI_TEXT], memory[SMI_TEXT], shown[64];

    if (smi_process_name(&subject, name, sizeof name) != NVML_SUCCESS)
        strcpy(name, "[Not Found]");
    if (strlen(name) > 32)
        snprintf(shown, sizeof shown, "...%s", name + strlen(name) - 29);
    else
        strcpy(shown, name);
    snprintf(memory, sizeof memory, "%lluMiB", info->usedGpuMemory >> 20);
    if (strlen(memory) > 8)
        strcpy(memory + 5, "...");
    printf("|%5u   N/A  N/A %15u      C   %-32s      %8s |\n", gpu->index, info->pid, shown, memory);
}

static void processes(const struct smi_gpu *gpus, unsigned int count)
{
    unsigned int i, j, printed = 0;

    printf("\n" RULE "| Processes:%78s|\n", "");
    printf("|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
           "|        ID   ID                                                               Usage      |\n"
           "|=========================================================================================|\n");
    for (i = 0; i < count; i++) {
        struct smi_processes found = smi_processes(&gpus[i]);

        for (j = 0; j < found.count; j++, printed++)
            process(&gpus[i], &found.list[j]);
        free(found.list);
    }
    if (printed == 0)
        printf("|  No running processes found                                                             |\n");
    printf(RULE);
}

void smi_table(const struct smi_gpu *gpus, unsigned int count)
{
    char driver[80] = "N/A", cuda[32] = "N/A", day[64];
    time_t now = time(NULL);
    struct tm here;
    unsigned int i;
    int version = 0;

    for (i = 0; i < count; i++)
        if (gpus[i].handle == NULL)
            smi_say_lost(&gpus[i]);
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
    for (i = 0; i < count; i++) {
        if (gpus[i].handle == NULL)
            continue;
        identity(&gpus[i]);
        load(&gpus[i]);
        mig(&gpus[i]);
        printf(GRID);
    }
    processes(gpus, count);
}
