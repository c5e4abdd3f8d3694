/* nvidia-smi: what it says of itself. */
#include "smi.h"

#include <stdio.h>
#include <string.h>

static const char HELP[] =
    "nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...\n"
    "\n"
    "    The lab's nvidia-smi for simulated GPUs. It knows the options below of NVIDIA's own.\n"
    "\n"
    "    -h,   --help                    Print usage information and exit.\n"
    "          --version                 Print version information and exit.\n"
    "    -L,   --list-gpus               List the GPUs and their UUIDs.\n"
    "\n"
    "    -q,   --query                   Print all that is known of the GPUs.\n"
    "    -d,   --display=TYPE[,TYPE]     With -q: only MEMORY, UTILIZATION, ECC, TEMPERATURE, POWER, CLOCK, COMPUTE,\n"
    "                                    PIDS, PERFORMANCE, PAGE_RETIREMENT, ACCOUNTING, ENCODER_STATS, FBC_STATS,\n"
    "                                    ROW_REMAPPER, GSP_FIRMWARE_VERSION.\n"
    "\n"
    "          --query-gpu=FIELD[,FIELD]           Chosen properties of the GPUs, with --format.\n"
    "          --query-compute-apps=FIELD[,FIELD]  Chosen properties of the processes, with --format.\n"
    "          --format=csv[,noheader][,nounits]\n"
    "          --help-query-gpu, --help-query-compute-apps   The properties.\n"
    "\n"
    "    -i,   --id=ID[,ID]              Only these GPUs, by index, UUID or PCI bus id.\n"
    "    -l,   --loop[=SECONDS]          Again and again until Ctrl+C, every 5 seconds by default.\n"
    "    -lms, --loop-ms=MILLISECONDS    As --loop.\n"
    "    -f,   --filename=FILE           Write into a file.\n"
    "\n";

void smi_help(void)
{
    printf("%s", HELP);
}

/* NVML's own version leaves the last part of the driver's out. */
void smi_version(void)
{
    char driver[80] = "N/A";
    size_t length;
    int cuda = 0;

    nvml.SystemGetDriverVersion(driver, sizeof driver);
    nvml.SystemGetCudaDriverVersion_v2(&cuda);
    length = strcspn(driver, ".");
    if (driver[length] == '.')
        length += 1 + strcspn(driver + length + 1, ".");
    printf("NVIDIA-SMI version  : %s\nNVML version        : %.*s\nDRIVER version      : %s\n", driver, (int)length,
           driver, driver);
    printf("CUDA Version        : %d.%d\n", cuda / 1000, cuda % 1000 / 10);
}
