/*
 * The part of NVML's binary interface (13.0) that is filled here: result codes and structures, by NVML's own
 * names. What other programs see of them is fixed; the assertions hold the sizes.
 */
#ifndef NVML_TYPES_H
#define NVML_TYPES_H

#include <stddef.h>

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_LIBRARY_NOT_FOUND = 12,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;

/* Versions 1 and 2 end after pciDeviceId and pciSubSystemId; version 3 has it all. */
typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned int version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass;
    char busId[32];
} nvmlPciInfoExt_t;

/* Version 1 of nvmlEventSetWait ends after eventData. */
typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

/* Version 1 of the process lists ends after usedGpuMemory; versions 2 and 3 have it all. */
typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned int valueType;
    nvmlReturn_t nvmlReturn;
    unsigned long long value;
} nvmlFieldValue_t;

typedef struct {
    unsigned int version, type; /* 1: text, 2: bytes */
    union {
        char text[41];
        unsigned char bytes[16];
    } value;
} nvmlUUID_t;

#define STRUCT_VERSION(type, number) ((unsigned int)sizeof(type) | (unsigned int)(number) << 24)

_Static_assert(sizeof(nvmlMemory_t) == 24, "NVML's nvmlMemory_t");
_Static_assert(sizeof(nvmlMemory_v2_t) == 40, "NVML's nvmlMemory_v2_t");
_Static_assert(sizeof(nvmlPciInfo_t) == 68, "NVML's nvmlPciInfo_t");
_Static_assert(sizeof(nvmlPciInfoExt_t) == 64, "NVML's nvmlPciInfoExt_v1_t");
_Static_assert(sizeof(nvmlEventData_t) == 32, "NVML's nvmlEventData_t");
_Static_assert(sizeof(nvmlProcessInfo_t) == 24, "NVML's nvmlProcessInfo_v2_t");
_Static_assert(sizeof(nvmlFieldValue_t) == 40, "NVML's nvmlFieldValue_t");
_Static_assert(sizeof(nvmlUUID_t) == 52, "NVML's nvmlUUID_v1_t");

#endif
