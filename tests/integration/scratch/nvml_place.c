/*
 * Compiled with kind/nvml, whose getenv() is made this one: the library's config lies where NVIDIA's toolkit finds
 * the files of a driver (every *.so.<version> beside libcuda), and so comes along into nodes and pods.
 */
#undef getenv
#include <stdlib.h>
#include <string.h>

char *scratch_getenv(const char *name);

char *scratch_getenv(const char *name)
{
    static char place[] = SCRATCH_CONFIG;
    char *value = getenv(name);

    return value == NULL && strcmp(name, "KAILAB_NVML_CONFIG") == 0 ? place : value;
}
