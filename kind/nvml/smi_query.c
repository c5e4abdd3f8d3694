/*
 * nvidia-smi --query-gpu: chosen properties as CSV, by the names and units that nvidia-smi --help-query-gpu lists
 * (driver 535 to 590). Here are those that a simulated GPU has, and of the others those that people ask for.
 */
#include "smi.h"

#include "nvml_sim.h"

#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum value {
    NONE, TIMESTAMP, DRIVER, COUNT, INDEX, NAME, UUID, BUS_ID, PCI_DOMAIN, PCI_BUS, PCI_DEVICE, DEVICE_ID, SUBSYSTEM_ID,
    DISPLAY, COMPUTE_MODE, COMPUTE_CAP, TOTAL, RESERVED, USED, FREE, BUSY, MEMORY_BUSY, POWER_LIMIT
};

static const struct field {
    const char *name, *alias; /* the header always has the name */
    const char *unit;
    enum value value; /* NONE: no simulated GPU has it */
} FIELDS[] = {
    {"timestamp", NULL, NULL, TIMESTAMP},
    {"driver_version", NULL, NULL, DRIVER},
    {"count", NULL, NULL, COUNT},
    {"index", NULL, NULL, INDEX},
    {"name", "gpu_name", NULL, NAME},
    {"uuid", "gpu_uuid", NULL, UUID},
    {"serial", "gpu_serial", NULL, NONE},
    {"vbios_version", NULL, NULL, NONE},
    {"pci.bus_id", "gpu_bus_id", NULL, BUS_ID},
    {"pci.domain", NULL, NULL, PCI_DOMAIN},
    {"pci.bus", NULL, NULL, PCI_BUS},
    {"pci.device", NULL, NULL, PCI_DEVICE},
    {"pci.device_id", NULL, NULL, DEVICE_ID},
    {"pci.sub_device_id", NULL, NULL, SUBSYSTEM_ID},
    {"pcie.link.gen.current", NULL, NULL, NONE},
    {"pcie.link.gen.max", NULL, NULL, NONE},
    {"pcie.link.width.current", NULL, NULL, NONE},
    {"pcie.link.width.max", NULL, NULL, NONE},
    {"display_active", NULL, NULL, DISPLAY},
    {"persistence_mode", NULL, NULL, NONE},
    {"compute_mode", NULL, NULL, COMPUTE_MODE},
    {"compute_cap", NULL, NULL, COMPUTE_CAP},
    {"memory.total", NULL, "MiB", TOTAL},
    {"memory.reserved", NULL, "MiB", RESERVED},
    {"memory.used", NULL, "MiB", USED},
    {"memory.free", NULL, "MiB", FREE},
    {"utilization.gpu", NULL, "%", BUSY},
    {"utilization.memory", NULL, "%", MEMORY_BUSY},
    {"fan.speed", NULL, "%", NONE},
    {"temperature.gpu", NULL, NULL, NONE},
    {"pstate", NULL, NULL, NONE},
    {"power.draw", NULL, "W", NONE},
    {"power.limit", NULL, "W", POWER_LIMIT},
    {"enforced.power.limit", NULL, "W", POWER_LIMIT},
    {"power.default_limit", NULL, "W", POWER_LIMIT},
    {"clocks.current.graphics", "clocks.gr", "MHz", NONE},
    {"clocks.current.sm", "clocks.sm", "MHz", NONE},
    {"clocks.current.memory", "clocks.mem", "MHz", NONE},
    {"clocks.max.graphics", "clocks.max.gr", "MHz", NONE},
    {"clocks.max.sm", NULL, "MHz", NONE},
    {"clocks.max.memory", "clocks.max.mem", "MHz", NONE},
    {"ecc.mode.current", NULL, NULL, NONE},
    {"ecc.errors.uncorrected.volatile.total", NULL, NULL, NONE},
    {"mig.mode.current", NULL, NULL, NONE},
};

static const struct field *field_named(const char *name, size_t length)
{
    size_t i;

    for (i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
        if (sim_is(name, length, FIELDS[i].name)
            || (FIELDS[i].alias != NULL && sim_is(name, length, FIELDS[i].alias)))
            return &FIELDS[i];
    return NULL;
}

void smi_list_fields(void)
{
    size_t i;

    for (i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
        printf("    %s%s%s\n", FIELDS[i].name, FIELDS[i].alias != NULL ? " or " : "",
               FIELDS[i].alias != NULL ? FIELDS[i].alias : "");
}

int smi_check_fields(const char *fields)
{
    const char *name;
    size_t length;

    while (smi_part(&fields, &name, &length))
        if (field_named(name, length) == NULL) {
            printf("Field \"%.*s\" is not a valid field to query. The lab's nvidia-smi knows:\n\n", (int)length, name);
            smi_list_fields();
            return SMI_INVALID;
        }
    return SMI_OK;
}

static void print_time(void)
{
    struct timeval now;
    struct tm here;
    char day[32];

    gettimeofday(&now, NULL);
    localtime_r(&now.tv_sec, &here);
    strftime(day, sizeof day, "%Y/%m/%d %H:%M:%S", &here);
    printf("%s.%03d", day, (int)(now.tv_usec / 1000));
}

static void print_driver(void)
{
    char driver[80] = "[N/A]";

    nvml.SystemGetDriverVersion(driver, sizeof driver);
    printf("%s", driver);
}

static int is_known(enum value value, const struct smi_gpu *gpu)
{
    switch (value) {
    case NONE: return 0;
    case BUSY:
    case MEMORY_BUSY: return gpu->has_utilization;
    case POWER_LIMIT: return gpu->has_power;
    default: return 1;
    }
}

static void print_known(enum value value, const struct smi_gpu *gpu, unsigned int all)
{
    switch (value) {
    case NONE: break;
    case TIMESTAMP: print_time(); break;
    case DRIVER: print_driver(); break;
    case COUNT: printf("%u", all); break;
    case INDEX: printf("%u", gpu->index); break;
    case NAME: printf("%s", gpu->name); break;
    case UUID: printf("%s", gpu->uuid); break;
    case BUS_ID: printf("%s", gpu->pci.busId); break;
    case PCI_DOMAIN: printf("0x%04X", gpu->pci.domain); break;
    case PCI_BUS: printf("0x%02X", gpu->pci.bus); break;
    case PCI_DEVICE: printf("0x%02X", gpu->pci.device); break;
    case DEVICE_ID: printf("0x%08X", gpu->pci.pciDeviceId); break;
    case SUBSYSTEM_ID: printf("0x%08X", gpu->pci.pciSubSystemId); break;
    case DISPLAY: printf("Disabled"); break; /* this and the next one: nvml_constant.c */
    case COMPUTE_MODE: printf("Default"); break;
    case COMPUTE_CAP: printf("%d.%d", gpu->major, gpu->minor); break;
    case TOTAL: printf("%llu", gpu->memory.total / MIB); break;
    case RESERVED: printf("%llu", gpu->memory.reserved / MIB); break;
    case USED: printf("%llu", gpu->memory.used / MIB); break;
    case FREE: printf("%llu", gpu->memory.free / MIB); break;
    case BUSY: printf("%u", gpu->utilization.gpu); break;
    case MEMORY_BUSY: printf("%u", gpu->utilization.memory); break;
    case POWER_LIMIT: printf("%u.%02u", gpu->power / 1000, gpu->power % 1000 / 10); break;
    }
}

static void print_value(const struct field *field, int units, const struct smi_gpu *gpu, unsigned int all)
{
    if (gpu->why == NVML_ERROR_GPU_IS_LOST) {
        printf("[GPU is lost]");
    } else if (gpu->why != NVML_SUCCESS) {
        printf("[Unknown Error]");
    } else if (!is_known(field->value, gpu)) {
        printf("[N/A]");
    } else {
        print_known(field->value, gpu, all);
        if (field->unit != NULL && units)
            printf(" %s", field->unit);
    }
}

/* One line: of a GPU's values, or without one of headers. */
static void line(const char *fields, int units, const struct smi_gpu *gpu, unsigned int all)
{
    const char *name, *between = "";
    size_t length;

    while (smi_part(&fields, &name, &length)) {
        const struct field *field = field_named(name, length);

        printf("%s", between);
        between = ", ";
        if (gpu != NULL)
            print_value(field, units, gpu, all);
        else if (field->unit != NULL && units)
            printf("%s [%s]", field->name, field->unit);
        else
            printf("%s", field->name);
    }
    printf("\n");
}

void smi_query(const char *fields, int header, int units, const struct smi_gpus *gpus)
{
    unsigned int i;

    if (header)
        line(fields, units, NULL, 0);
    for (i = 0; i < gpus->count; i++) {
        if (gpus->list[i].why != NVML_SUCCESS)
            smi_say_lost(&gpus->list[i]);
        line(fields, units, &gpus->list[i], gpus->all);
    }
}
