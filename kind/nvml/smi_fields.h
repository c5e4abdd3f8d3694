/* nvidia-smi: the properties that --query-gpu and --query-compute-apps know, as a table. */
#ifndef SMI_FIELDS_H
#define SMI_FIELDS_H

#include "smi.h"

struct smi_field {
    const char *name, *alias; /* the header always has the name */
    const char *unit;         /* NULL: none */
    smi_getter get;           /* NULL: no simulated GPU has it */
    const char *missing;      /* what stands for a missing value; NULL: "[N/A]" */
};

struct smi_fields {
    const char *option;
    const struct smi_field *list;
    size_t count;
};

extern const struct smi_fields smi_gpu_fields, smi_app_fields;

#endif
