/* What this container sees, as JSON. Of the environment only what concerns GPUs: the rest may hold secrets. */
#include "probe.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const variables[] = {
    "NVIDIA_VISIBLE_DEVICES", /* the device plugin for whole GPUs, KAI's binder for parts of one */
    "NVIDIA_DRIVER_CAPABILITIES",
    "CUDA_VISIBLE_DEVICES",
    "RUNAI_NUM_OF_GPUS", /* KAI's binder, deprecated; the same value as GPU_PORTION */
    "GPU_PORTION",
    "CUDA_DEVICE_MEMORY_LIMIT", /* KAI 0.16 and newer with HAMi-core (pkg/binder/plugins/hamicore) */
    "KAILAB_GPU_MEMORY_MIB",    /* what a workload on a simulated GPU says that it uses */
};

static void environment(struct text *into)
{
    size_t i;

    for (i = 0; i < sizeof variables / sizeof *variables; i++) {
        text_format(into, "%s\"%s\": ", i > 0 ? ", " : "", variables[i]);
        text_quote(into, getenv(variables[i]));
    }
}

static int is_nvidia(const struct dirent *entry)
{
    return strncmp(entry->d_name, "nvidia", 6) == 0;
}

static void device_files(struct text *into)
{
    struct dirent **found = NULL;
    int count = scandir("/dev", &found, is_nvidia, alphasort), i;

    for (i = 0; i < count; i++) {
        text_format(into, "%s\"/dev/%s\"", i > 0 ? ", " : "", found[i]->d_name);
        free(found[i]);
    }
    free(found);
}

void facts(struct text *into)
{
    char hostname[256] = "";

    gethostname(hostname, sizeof hostname - 1);
    text_format(into, "{\"hostname\": ");
    text_quote(into, hostname);
    text_format(into, ", \"pid\": %d, \"env\": {", (int)getpid());
    environment(into);
    text_format(into, "}, \"device_files\": [");
    device_files(into);
    text_format(into, "], ");
    gpus(into);
    text_format(into, "}");
}
