/* nvidia-smi -q: the lines of the report, as a table. */
#ifndef SMI_REPORT_H
#define SMI_REPORT_H

#include "smi.h"

struct smi_line {
    int depth; /* 1: directly under the GPU */
    const char *label;
    const char *unit;    /* NULL: none */
    smi_getter get;      /* NULL: no simulated GPU has it, or a heading */
    const char *section; /* -d name of this line and those under it; NULL: only in a full report */
};

#define SMI_PROCESSES "Processes"

extern const struct smi_line smi_lines[];
extern const size_t smi_line_count;

#endif
