/* "nvidia-smi -L" of the scratch driver: lists what NVML tells, in the words of NVIDIA's own program. */
#include <dlfcn.h>
#include <stdio.h>

#define TEXT 96

int main(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW), *device;
    char name[TEXT], uuid[TEXT];
    unsigned int count = 0, index;

    if (library == NULL || ((int (*)(void))dlsym(library, "nvmlInit_v2"))() != 0) {
        puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.");
        return 9;
    }
    ((int (*)(unsigned int *))dlsym(library, "nvmlDeviceGetCount_v2"))(&count);
    for (index = 0; index < count; index++) {
        ((int (*)(unsigned int, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2"))(index, &device);
        ((int (*)(void *, char *, unsigned int))dlsym(library, "nvmlDeviceGetName"))(device, name, TEXT);
        ((int (*)(void *, char *, unsigned int))dlsym(library, "nvmlDeviceGetUUID"))(device, uuid, TEXT);
        printf("GPU %u: %s (UUID: %s)\n", index, name, uuid);
    }
    return 0;
}
