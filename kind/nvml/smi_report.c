/* nvidia-smi -q: the report. */
#include "smi_report.h"

#include "nvml_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COLUMN 55        /* of the colons; in the list of processes they stand further left: */
#define PROCESS_COLUMN 42

static void label(int depth, const char *text, int column)
{
    printf("%*s%-*s", 4 * depth, "", column - 4 * depth, text);
}

static const char *reason(nvmlReturn_t why)
{
    return why == NVML_ERROR_NOT_SUPPORTED ? "N/A" : why == NVML_ERROR_GPU_IS_LOST ? "GPU is lost" : "Unknown Error";
}

static void value(const struct smi_line *line, const struct smi_gpu *gpu)
{
    const struct smi_subject subject = {gpu, NULL};
    char text[SMI_TEXT];
    nvmlReturn_t result = line->get != NULL ? line->get(&subject, text, sizeof text) : NVML_ERROR_NOT_SUPPORTED;

    label(line->depth, line->label, COLUMN);
    if (result != NVML_SUCCESS)
        printf(": %s\n", reason(result));
    else if (line->unit != NULL)
        printf(": %s %s\n", text, line->unit);
    else
        printf(": %s\n", text);
}

static void process_line(int depth, const char *name, const char *text)
{
    label(depth, name, PROCESS_COLUMN);
    printf(": %s\n", text);
}

static void processes(const struct smi_line *line, const struct smi_gpu *gpu)
{
    struct smi_processes found = smi_processes(gpu);
    char text[SMI_TEXT];
    unsigned int i;

    if (found.count == 0) {
        label(line->depth, line->label, COLUMN);
        printf(": None\n");
    } else {
        printf("    %s\n", line->label);
    }
    for (i = 0; i < found.count; i++) {
        const struct smi_subject subject = {gpu, &found.list[i]};

        process_line(2, "GPU instance ID", "N/A");
        process_line(2, "Compute instance ID", "N/A");
        smi_pid(&subject, text, sizeof text);
        process_line(2, "Process ID", text);
        process_line(3, "Type", "C");
        if (smi_process_name(&subject, text, sizeof text) != NVML_SUCCESS)
            strcpy(text, "Not Found");
        process_line(3, "Name", text);
        smi_process_memory(&subject, text, sizeof text);
        label(3, "Used GPU Memory", PROCESS_COLUMN);
        printf(": %s MiB\n", text);
    }
    free(found.list);
}

static int is_listed(const char *list, const char *section)
{
    const char *name;
    size_t length;

    while (section != NULL && smi_part(&list, &name, &length))
        if (sim_is(name, length, section))
            return 1;
    return 0;
}

int smi_check_display(const char *display)
{
    const char *name;
    size_t length, i;

    while (smi_part(&display, &name, &length)) {
        for (i = 0; i < smi_line_count; i++)
            if (smi_lines[i].section != NULL && sim_is(name, length, smi_lines[i].section))
                break;
        if (i == smi_line_count) {
            printf("ERROR: Display type %.*s is not recognized. Please run 'nvidia-smi -h' for help.\n\n", (int)length,
                   name);
            return SMI_INVALID;
        }
    }
    return SMI_OK;
}

static void report_gpu(const char *display, const struct smi_gpu *gpu)
{
    const struct smi_subject subject = {gpu, NULL};
    char bus[SMI_TEXT] = "N/A";
    int shown = 1;
    size_t i;

    smi_bus_id(&subject, bus, sizeof bus);
    printf("GPU %s\n", bus);
    for (i = 0; i < smi_line_count; i++) {
        const struct smi_line *line = &smi_lines[i];

        if (line->depth == 1)
            shown = display == NULL || is_listed(display, line->section);
        if (!shown)
            continue;
        if (strcmp(line->label, SMI_PROCESSES) == 0)
            processes(line, gpu);
        else if (i + 1 < smi_line_count && smi_lines[i + 1].depth > line->depth)
            printf("%*s%s\n", 4 * line->depth, "", line->label);
        else
            value(line, gpu);
    }
    printf("\n");
}

void smi_report(const char *display, const struct smi_gpu *gpus, unsigned int count)
{
    char driver[80] = "N/A", cuda[32] = "N/A", day[64];
    time_t now = time(NULL);
    struct tm here;
    unsigned int i, all = 0;
    int version = 0;

    nvml.SystemGetDriverVersion(driver, sizeof driver);
    if (nvml.SystemGetCudaDriverVersion_v2(&version) == NVML_SUCCESS)
        snprintf(cuda, sizeof cuda, "%d.%d", version / 1000, version % 1000 / 10);
    nvml.DeviceGetCount_v2(&all);
    localtime_r(&now, &here);
    strftime(day, sizeof day, "%a %b %e %H:%M:%S %Y", &here);
    printf("\n==============NVSMI LOG==============\n\n");
    printf("%-*s: %s\n%-*s: %s\n%-*s: %s\n\n", COLUMN, "Timestamp", day, COLUMN, "Driver Version", driver, COLUMN,
           "CUDA Version", cuda);
    printf("%-*s: %u\n", COLUMN, "Attached GPUs", all);
    for (i = 0; i < count; i++)
        if (gpus[i].handle != NULL)
            report_gpu(display, &gpus[i]);
        else
            smi_say_lost(&gpus[i]);
}
