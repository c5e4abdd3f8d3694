/* nvidia-smi --query-gpu and --query-compute-apps: chosen properties as CSV. */
#include "smi_fields.h"

#include "nvml_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct smi_fields *fields_of(const struct smi_options *options)
{
    return options->mode == SMI_QUERY_APPS ? &smi_app_fields : &smi_gpu_fields;
}

static const struct smi_field *field_named(const struct smi_fields *fields, const char *name, size_t length)
{
    size_t i;

    for (i = 0; i < fields->count; i++)
        if (sim_is(name, length, fields->list[i].name)
            || (fields->list[i].alias != NULL && sim_is(name, length, fields->list[i].alias)))
            return &fields->list[i];
    return NULL;
}

int smi_check_fields(const struct smi_options *options)
{
    const char *list = options->fields, *name;
    size_t length;

    while (smi_part(&list, &name, &length))
        if (field_named(fields_of(options), name, length) == NULL) {
            printf("Field \"%.*s\" is not a valid field to query.\n\n", (int)length, name);
            return SMI_INVALID;
        }
    return SMI_OK;
}

static const char *reason(nvmlReturn_t why, const struct smi_field *field)
{
    switch (why) {
    case NVML_ERROR_NOT_SUPPORTED: return field->missing != NULL ? field->missing : "[N/A]";
    case NVML_ERROR_NOT_FOUND: return "[Not Found]";
    case NVML_ERROR_NO_PERMISSION: return "[Insufficient Permissions]";
    case NVML_ERROR_GPU_IS_LOST: return "[GPU is lost]";
    default: return "[Unknown Error]";
    }
}

static void value(const struct smi_options *options, const struct smi_field *field, const struct smi_subject *subject)
{
    char text[SMI_TEXT];
    nvmlReturn_t result = subject->gpu->why;

    if (result == NVML_SUCCESS)
        result = field->get != NULL ? field->get(subject, text, sizeof text) : NVML_ERROR_NOT_SUPPORTED;
    if (result != NVML_SUCCESS)
        printf("%s", reason(result, field));
    else if (field->unit != NULL && options->units)
        printf("%s %s", text, field->unit);
    else
        printf("%s", text);
}

/* One line: of headers, or of the values of a subject. */
static void line(const struct smi_options *options, const struct smi_subject *subject)
{
    const char *list = options->fields, *name, *between = "";
    size_t length;

    while (smi_part(&list, &name, &length)) {
        const struct smi_field *field = field_named(fields_of(options), name, length);

        printf("%s", between);
        between = ", ";
        if (subject != NULL)
            value(options, field, subject);
        else if (field->unit != NULL && options->units)
            printf("%s [%s]", field->name, field->unit);
        else
            printf("%s", field->name);
    }
    printf("\n");
}

void smi_query(const struct smi_options *options, const struct smi_gpu *gpus, unsigned int count, int first)
{
    unsigned int i, j;

    if (options->header && first)
        line(options, NULL);
    for (i = 0; i < count; i++) {
        struct smi_subject subject = {&gpus[i], NULL};

        if (gpus[i].handle == NULL)
            smi_say_lost(&gpus[i]);
        if (options->mode == SMI_QUERY_APPS) {
            struct smi_processes found = smi_processes(&gpus[i]);

            for (j = 0; j < found.count; j++) {
                subject.process = &found.list[j];
                line(options, &subject);
            }
            free(found.list);
        } else {
            line(options, &subject);
        }
    }
}

void smi_list_fields(int apps)
{
    const struct smi_fields *fields = apps ? &smi_app_fields : &smi_gpu_fields;
    size_t i;

    printf("List of valid properties to query for the switch \"%s\":\n\n", fields->option);
    for (i = 0; i < fields->count; i++) {
        const struct smi_field *field = &fields->list[i];

        printf("\"%s\"", field->name);
        if (field->alias != NULL)
            printf(" or \"%s\"", field->alias);
        printf("\n%s\n\n", field->get != NULL ? "Asked of NVML." : "No simulated GPU has it.");
    }
}
