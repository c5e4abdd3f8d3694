/* nvidia-smi: the command line. */
#include "smi.h"

#include "nvml_sim.h"

#include <stdio.h>
#include <string.h>

enum takes { NOTHING, PERHAPS, A_VALUE };

static const struct option {
    const char *brief, *full;
    enum takes takes;
} OPTIONS[] = {
    {"-h", "--help", NOTHING},
    {NULL, "--version", NOTHING},
    {"-L", "--list-gpus", NOTHING},
    {"-q", "--query", NOTHING},
    {"-i", "--id", A_VALUE},
    {"-d", "--display", A_VALUE},
    {"-f", "--filename", A_VALUE},
    {"-l", "--loop", PERHAPS},
    {"-lms", "--loop-ms", A_VALUE},
    {NULL, "--query-gpu", A_VALUE},
    {NULL, "--query-compute-apps", A_VALUE},
    {NULL, "--format", A_VALUE},
    {NULL, "--help-query-gpu", NOTHING},
    {NULL, "--help-query-compute-apps", NOTHING},
};

#define DEFAULT_LOOP "5" /* seconds */

static int refuse(const char *word)
{
    printf("ERROR: Option %s is not recognized. Please run 'nvidia-smi -h' for help.\n\n", word);
    return SMI_INVALID;
}

static const struct option *option_of(const char *word, size_t length)
{
    size_t i;

    for (i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++)
        if (sim_is(word, length, OPTIONS[i].full)
            || (OPTIONS[i].brief != NULL && sim_is(word, length, OPTIONS[i].brief)))
            return &OPTIONS[i];
    return NULL;
}

/* "csv", "csv,noheader,nounits"; csv is a must. */
static int format(struct smi_options *options, const char *list)
{
    const char *name;
    size_t length;
    int csv = 0;

    while (smi_part(&list, &name, &length)) {
        if (sim_is(name, length, "csv"))
            csv = 1;
        else if (sim_is(name, length, "noheader"))
            options->header = 0;
        else if (sim_is(name, length, "nounits"))
            options->units = 0;
        else
            return -1;
    }
    return csv ? 0 : -1;
}

static int set(struct smi_options *options, const struct option *option, const char *value, int *formatted)
{
    static const struct {
        const char *full;
        int mode;
    } modes[] = {
        {"--help", SMI_HELP}, {"--version", SMI_VERSION}, {"--list-gpus", SMI_LIST}, {"--query", SMI_REPORT},
        {"--query-gpu", SMI_QUERY_GPUS}, {"--query-compute-apps", SMI_QUERY_APPS},
        {"--help-query-gpu", SMI_HELP_GPUS}, {"--help-query-compute-apps", SMI_HELP_APPS},
    };
    unsigned int number = 0;
    size_t i;

    for (i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(option->full, modes[i].full) == 0) {
            options->mode = modes[i].mode;
            options->fields = value;
            return 0;
        }
    if (strcmp(option->full, "--id") == 0)
        options->ids = value;
    else if (strcmp(option->full, "--display") == 0)
        options->display = value;
    else if (strcmp(option->full, "--filename") == 0)
        options->filename = value;
    else if (strcmp(option->full, "--format") == 0)
        return *formatted = 1, format(options, value);
    else if (sim_unsigned(value, strlen(value), 10, &number) != 0 || number == 0 || number > 1000000)
        return -1;
    else
        options->pause = strcmp(option->full, "--loop") == 0 ? number * 1000 : number;
    return 0;
}

/* What may follow --loop without belonging to it. */
static int is_number(const char *word)
{
    unsigned int number;

    return word != NULL && sim_unsigned(word, strlen(word), 10, &number) == 0;
}

int smi_parse(int argc, char **argv, struct smi_options *options)
{
    int i, formatted = 0;

    memset(options, 0, sizeof *options);
    options->header = options->units = 1;
    for (i = 1; i < argc; i++) {
        size_t length = strcspn(argv[i], "=");
        const struct option *option = option_of(argv[i], length);
        const char *value = argv[i][length] == '=' ? argv[i] + length + 1 : NULL, *word = argv[i];

        if (option == NULL || (value != NULL && option->takes == NOTHING))
            return refuse(word);
        if (value == NULL && (option->takes == A_VALUE || (option->takes == PERHAPS && is_number(argv[i + 1]))))
            value = argv[++i];
        if (value == NULL && option->takes == PERHAPS)
            value = DEFAULT_LOOP;
        if ((value == NULL && option->takes == A_VALUE) || set(options, option, value, &formatted) != 0)
            return refuse(word);
    }
    if ((options->mode == SMI_QUERY_GPUS || options->mode == SMI_QUERY_APPS) && !formatted) {
        printf("\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n\n");
        return SMI_INVALID;
    }
    if (options->fields != NULL && smi_check_fields(options) != SMI_OK)
        return SMI_INVALID;
    return smi_check_display(options->display);
}
