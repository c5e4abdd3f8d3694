/* nvidia-smi: from the command line to what is printed. */
#include "smi.h"

#include "nvml_sim.h"

#include <stdio.h>
#include <string.h>

static const char HELP[] =
    "nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...\n"
    "\n"
    "    The lab's nvidia-smi for simulated GPUs. It knows these options of NVIDIA's; without any it prints a table.\n"
    "\n"
    "    -h,   --help                    Print usage information and exit.\n"
    "    -L,   --list-gpus               List the GPUs and their UUIDs.\n"
    "    -i,   --id=ID[,ID]              Only these GPUs, by index, UUID or PCI bus id.\n"
    "          --query-gpu=FIELD[,FIELD] Chosen properties of the GPUs, with --format.\n"
    "          --format=csv[,noheader][,nounits]\n"
    "\n"
    "Properties for --query-gpu:\n";

enum { HELP_ME, LIST, ID, QUERY, FORMAT, OPTIONS };

static const struct {
    const char *brief, *full;
    int takes_value;
} KNOWN[OPTIONS] = {
    [HELP_ME] = {"-h", "--help", 0},
    [LIST] = {"-L", "--list-gpus", 0},
    [ID] = {"-i", "--id", 1},
    [QUERY] = {NULL, "--query-gpu", 1},
    [FORMAT] = {NULL, "--format", 1},
};

static int refuse(const char *word)
{
    printf("ERROR: Option %s is not recognized. Please run 'nvidia-smi -h' for help.\n\n"
           "The lab's nvidia-smi knows -h, -L, -i, and --query-gpu with --format=csv[,noheader][,nounits].\n",
           word);
    return SMI_INVALID;
}

static int option_of(const char *word, size_t length)
{
    int i;

    for (i = 0; i < OPTIONS; i++)
        if (sim_is(word, length, KNOWN[i].full)
            || (KNOWN[i].brief != NULL && sim_is(word, length, KNOWN[i].brief)))
            break;
    return i;
}

/* Fills in the value of each option that is there, "" for those without one. Returns an exit code. */
static int parse(char **argv, const char **values)
{
    for (argv++; *argv != NULL; argv++) {
        const char *word = *argv;
        size_t length = strcspn(word, "=");
        const char *value = word[length] == '=' ? word + length + 1 : NULL;
        int option = option_of(word, length);

        if (option == OPTIONS || (value != NULL && !KNOWN[option].takes_value))
            return refuse(word);
        if (value == NULL)
            value = KNOWN[option].takes_value ? *++argv : "";
        if (value == NULL)
            return refuse(word);
        values[option] = value;
    }
    return SMI_OK;
}

/* "csv", "csv,noheader,nounits"; csv is a must. */
static int is_csv(const char *list, int *header, int *units)
{
    const char *name;
    size_t length;
    int csv = 0;

    while (smi_part(&list, &name, &length)) {
        if (sim_is(name, length, "csv"))
            csv = 1;
        else if (sim_is(name, length, "noheader"))
            *header = 0;
        else if (sim_is(name, length, "nounits"))
            *units = 0;
        else
            return 0;
    }
    return csv;
}

static void list(const struct smi_gpus *gpus)
{
    unsigned int i;

    for (i = 0; i < gpus->count; i++) {
        const struct smi_gpu *gpu = &gpus->list[i];

        if (gpu->why != NVML_SUCCESS)
            smi_say_lost(gpu);
        else
            printf("GPU %u: %s (UUID: %s)\n", gpu->index, gpu->name, gpu->uuid);
    }
}

/* What is wrong with a query, before NVML is asked for anything. Returns an exit code. */
static int check(const char *fields, const char *format, int *header, int *units)
{
    char word[256];

    if (format != NULL && !is_csv(format, header, units)) {
        snprintf(word, sizeof word, "--format=%s", format);
        return refuse(word);
    }
    if (fields != NULL && format == NULL) {
        printf("\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n\n");
        return SMI_INVALID;
    }
    return fields != NULL ? smi_check_fields(fields) : SMI_OK;
}

int main(int argc, char **argv)
{
    static struct smi_gpus gpus;
    const char *values[OPTIONS] = {NULL};
    int header = 1, units = 1, code = argc > 0 ? parse(argv, values) : SMI_OK;
    unsigned int i;

    if (code == SMI_OK && values[HELP_ME] != NULL) {
        printf("%s", HELP);
        smi_list_fields();
        return SMI_OK;
    }
    if (code == SMI_OK)
        code = check(values[QUERY], values[FORMAT], &header, &units);
    if (code == SMI_OK)
        code = smi_open();
    if (code == SMI_OK)
        code = smi_look(values[ID], &gpus);
    if (code != SMI_OK)
        return code;
    if (values[LIST] != NULL)
        list(&gpus);
    else if (values[QUERY] != NULL)
        smi_query(values[QUERY], header, units, &gpus);
    else
        smi_table(&gpus);
    for (i = 0; i < gpus.count; i++)
        if (gpus.list[i].why != NVML_SUCCESS)
            code = SMI_GPU_LOST;
    return code;
}
