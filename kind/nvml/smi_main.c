/* nvidia-smi: from the command line to what is printed. */
#include "smi.h"

#include <stdio.h>
#include <time.h>

static void list(const struct smi_gpu *gpus, unsigned int count)
{
    unsigned int i;

    for (i = 0; i < count; i++) {
        const struct smi_subject subject = {&gpus[i], NULL};
        char name[SMI_TEXT] = "Unknown Error", uuid[SMI_TEXT] = "Unknown Error";

        if (gpus[i].handle == NULL) {
            smi_say_lost(&gpus[i]);
            continue;
        }
        smi_name(&subject, name, sizeof name);
        smi_uuid(&subject, uuid, sizeof uuid);
        printf("GPU %u: %s (UUID: %s)\n", gpus[i].index, name, uuid);
    }
}

static int is_any_lost(const struct smi_gpu *gpus, unsigned int count)
{
    unsigned int i;

    for (i = 0; i < count; i++)
        if (gpus[i].handle == NULL)
            return 1;
    return 0;
}

/* One output; first: the first one of a loop. */
static int show(const struct smi_options *options, int first)
{
    struct smi_gpu gpus[SMI_MAX_GPUS];
    unsigned int count = 0;
    int code = smi_gpus(options->ids, gpus, &count);

    if (code != SMI_OK)
        return code;
    switch (options->mode) {
    case SMI_LIST: list(gpus, count); break;
    case SMI_REPORT: smi_report(options->display, gpus, count); break;
    case SMI_QUERY_GPUS:
    case SMI_QUERY_APPS: smi_query(options, gpus, count, first); break;
    default: smi_table(gpus, count);
    }
    return is_any_lost(gpus, count) ? SMI_GPU_LOST : SMI_OK;
}

static int run(const struct smi_options *options)
{
    struct timespec pause = {options->pause / 1000, (long)(options->pause % 1000) * 1000000};
    int code, first;

    if (options->mode == SMI_VERSION) {
        smi_version();
        return SMI_OK;
    }
    for (first = 1;; first = 0) {
        code = show(options, first);
        fflush(stdout);
        if (options->pause == 0 || code == SMI_NOT_FOUND)
            return code;
        nanosleep(&pause, NULL);
    }
}

int main(int argc, char **argv)
{
    struct smi_options options;
    int code = smi_parse(argc, argv, &options);

    if (code != SMI_OK)
        return code;
    if (options.filename != NULL && freopen(options.filename, "w", stdout) == NULL) {
        fprintf(stderr, "ERROR: %s cannot be written\n", options.filename);
        return SMI_INVALID;
    }
    switch (options.mode) {
    case SMI_HELP: smi_help(); return SMI_OK;
    case SMI_HELP_GPUS: smi_list_fields(0); return SMI_OK;
    case SMI_HELP_APPS: smi_list_fields(1); return SMI_OK;
    default: break;
    }
    code = smi_open();
    if (code != SMI_OK)
        return code;
    code = run(&options);
    smi_close();
    return code;
}
