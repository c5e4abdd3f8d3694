/*
 * What NVML says. The library is the one in the container, real or simulated, and is looked for at each question:
 * a container without a GPU has none, and that is an answer too.
 */
#include "probe.h"

#include <dlfcn.h>

#define MIB (1024ull * 1024)

/* NVML's binary interface, by NVML's own names (nvml.h, versions 11 to 13). */
typedef int nvmlReturn_t; /* 0: NVML_SUCCESS */
typedef void *nvmlDevice_t;
typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

static struct {
    nvmlReturn_t (*Init_v2)(void);
    nvmlReturn_t (*Shutdown)(void);
    const char *(*ErrorString)(nvmlReturn_t);
    nvmlReturn_t (*SystemGetDriverVersion)(char *, unsigned int);
    nvmlReturn_t (*DeviceGetCount_v2)(unsigned int *);
    nvmlReturn_t (*DeviceGetHandleByIndex_v2)(unsigned int, nvmlDevice_t *);
    nvmlReturn_t (*DeviceGetUUID)(nvmlDevice_t, char *, unsigned int);
    nvmlReturn_t (*DeviceGetName)(nvmlDevice_t, char *, unsigned int);
    nvmlReturn_t (*DeviceGetMemoryInfo)(nvmlDevice_t, nvmlMemory_t *);
} nvml;

static const struct {
    const char *name;
    void *place;
} functions[] = {
    {"nvmlInit_v2", &nvml.Init_v2},
    {"nvmlShutdown", &nvml.Shutdown},
    {"nvmlErrorString", &nvml.ErrorString},
    {"nvmlSystemGetDriverVersion", &nvml.SystemGetDriverVersion},
    {"nvmlDeviceGetCount_v2", &nvml.DeviceGetCount_v2},
    {"nvmlDeviceGetHandleByIndex_v2", &nvml.DeviceGetHandleByIndex_v2},
    {"nvmlDeviceGetUUID", &nvml.DeviceGetUUID},
    {"nvmlDeviceGetName", &nvml.DeviceGetName},
    {"nvmlDeviceGetMemoryInfo", &nvml.DeviceGetMemoryInfo},
};

/* Takes the functions from the library; returns NULL, or what is missing. */
static const char *load(void *library)
{
    size_t i;

    for (i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(library, functions[i].name);

        if (function == NULL)
            return functions[i].name;
        *(void **)functions[i].place = function;
    }
    return NULL;
}

/* The first call that failed for a device, so that one which is lost does not hide the others. */
static void describe(struct text *into, unsigned int index)
{
    char uuid[96] = "", name[96] = "";
    nvmlMemory_t memory = {0};
    nvmlDevice_t device = NULL;
    nvmlReturn_t result = nvml.DeviceGetHandleByIndex_v2(index, &device);

    if (result == 0)
        result = nvml.DeviceGetUUID(device, uuid, sizeof uuid);
    if (result == 0)
        result = nvml.DeviceGetName(device, name, sizeof name);
    if (result == 0)
        result = nvml.DeviceGetMemoryInfo(device, &memory);
    text_format(into, "{\"index\": %u, \"uuid\": ", index);
    text_quote(into, *uuid != '\0' ? uuid : NULL);
    text_format(into, ", \"name\": ");
    text_quote(into, *name != '\0' ? name : NULL);
    if (result == 0)
        text_format(into, ", \"memory_total_mib\": %llu, \"memory_used_mib\": %llu, \"error\": null}",
                    memory.total / MIB, memory.used / MIB);
    else {
        text_format(into, ", \"memory_total_mib\": null, \"memory_used_mib\": null, \"error\": ");
        text_quote(into, nvml.ErrorString(result));
        text_format(into, "}");
    }
}

static void write_nvml(struct text *into, const char *driver, const char *error)
{
    text_format(into, "\"nvml\": {\"driver\": ");
    text_quote(into, driver);
    text_format(into, ", \"error\": ");
    text_quote(into, error);
    text_format(into, "}, \"devices\": [");
}

void gpus(struct text *into)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    const char *error = library == NULL ? dlerror() : load(library);
    char driver[96] = "";
    unsigned int count = 0, i;
    nvmlReturn_t result;

    if (error != NULL) {
        write_nvml(into, NULL, error);
    } else if ((result = nvml.Init_v2()) != 0) {
        write_nvml(into, NULL, nvml.ErrorString(result));
    } else {
        result = nvml.SystemGetDriverVersion(driver, sizeof driver);
        if (result == 0)
            result = nvml.DeviceGetCount_v2(&count);
        write_nvml(into, *driver != '\0' ? driver : NULL, result == 0 ? NULL : nvml.ErrorString(result));
        for (i = 0; i < count; i++) {
            text_add(into, ", ", i > 0 ? 2 : 0);
            describe(into, i);
        }
        nvml.Shutdown();
    }
    text_add(into, "]", 1);
    /* Once found the library stays: it is not unloaded and loaded again for every question. */
    if (library != NULL && error != NULL)
        dlclose(library);
}
