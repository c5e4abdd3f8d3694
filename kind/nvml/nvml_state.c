/*
 * The state of the library: the config in force, the handles given out, and how often it was initialized.
 *
 * The config is read again at each call and taken over when its bytes changed. Comparing bytes rather than
 * the time of change also sees two changes within one tick of the clock.
 */
#include "nvml_sim.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define HANDLES (4 * SIM_MAX_GPUS)
#define TORN_TRIES 50 /* times 10 ms: how long nvmlInit waits for a config that is just being written */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int started;
static struct sim_config config, fresh;
static char text[SIM_MAX_FILE], in_force[SIM_MAX_FILE];
static long in_force_length = -1;
static struct nvmlDevice_st handles[HANDLES];
static unsigned int handle_count;

static void take_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void sim_nap(unsigned int milliseconds)
{
    struct timespec time = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};

    nanosleep(&time, NULL);
}

const struct sim_config *sim_config(void)
{
    return &config;
}

static nvmlDevice_t handle_of(const char *uuid)
{
    unsigned int i;

    for (i = 0; i < handle_count; i++)
        if (strcmp(handles[i].gpu.uuid, uuid) == 0)
            return &handles[i];
    return NULL;
}

/* Takes the parsed config over. A GPU keeps its handle by its UUID. */
static void adopt(void)
{
    unsigned int i;

    config = fresh;
    for (i = 0; i < handle_count; i++)
        handles[i].listed = 0;
    for (i = 0; i < config.count; i++) {
        nvmlDevice_t handle = handle_of(config.gpus[i].uuid);

        if (handle == NULL && handle_count < HANDLES)
            handle = &handles[handle_count++];
        if (handle != NULL) {
            handle->gpu = config.gpus[i];
            handle->listed = 1;
        }
    }
}

/* Returns 0 when a config is in force afterwards; -1 when there is none, -2 when it cannot be read yet. */
static int refresh(void)
{
    long length = sim_read_config(text, sizeof text);

    if (length < 0)
        return in_force_length < 0 ? -1 : 0;
    if (length == in_force_length && memcmp(text, in_force, (size_t)length) == 0)
        return 0;
    if (sim_parse_config(text, (size_t)length, &fresh) != 0)
        return in_force_length < 0 ? -2 : 0;
    memcpy(in_force, text, (size_t)length);
    in_force_length = length;
    adopt();
    return 0;
}

/* Fills in the visible GPUs in the order of the config, which is that of their index; returns how many. */
unsigned int sim_visible(nvmlDevice_t *into, unsigned int room)
{
    unsigned int i, count = 0;

    for (i = 0; i < config.count && count < room; i++) {
        nvmlDevice_t handle = handle_of(config.gpus[i].uuid);

        if (handle != NULL && sim_has_node(&handle->gpu))
            into[count++] = handle;
    }
    return count;
}

nvmlReturn_t sim_start(void)
{
    nvmlDevice_t any;
    int state, tries;

    take_lock();
    for (tries = 0; (state = refresh()) == -2 && tries < TORN_TRIES; tries++) {
        sim_unlock();
        sim_nap(10);
        take_lock();
    }
    if (state == 0 && sim_visible(&any, 1) == 1) {
        started++;
        sim_unlock();
        return NVML_SUCCESS;
    }
    sim_unlock();
    return state == -2 ? NVML_ERROR_UNKNOWN : NVML_ERROR_DRIVER_NOT_LOADED;
}

nvmlReturn_t sim_stop(void)
{
    nvmlReturn_t result = NVML_ERROR_UNINITIALIZED;

    take_lock();
    if (started > 0) {
        started--;
        result = NVML_SUCCESS;
    }
    sim_unlock();
    return result;
}

nvmlReturn_t sim_enter(void)
{
    take_lock();
    if (started == 0) {
        sim_unlock();
        return NVML_ERROR_UNINITIALIZED;
    }
    refresh();
    return NVML_SUCCESS;
}

/* Whether it is a handle that was given out. */
static int is_handle(nvmlDevice_t device)
{
    unsigned int i;

    for (i = 0; i < handle_count; i++)
        if (device == &handles[i])
            return 1;
    return 0;
}

nvmlReturn_t sim_enter_known(nvmlDevice_t device)
{
    nvmlReturn_t result = sim_enter();

    if (result != NVML_SUCCESS)
        return result;
    if (!is_handle(device))
        result = NVML_ERROR_INVALID_ARGUMENT;
    else if (!device->listed)
        result = NVML_ERROR_GPU_IS_LOST;
    if (result != NVML_SUCCESS)
        sim_unlock();
    return result;
}

nvmlReturn_t sim_enter_device(nvmlDevice_t device)
{
    nvmlReturn_t result = sim_enter_known(device);

    if (result == NVML_SUCCESS && device->gpu.lost) {
        sim_unlock();
        result = NVML_ERROR_GPU_IS_LOST;
    }
    return result;
}

nvmlReturn_t sim_copy(char *into, unsigned int size, const char *from)
{
    size_t length = strlen(from) + 1;

    if (into == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (length > size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(into, from, length);
    return NVML_SUCCESS;
}
