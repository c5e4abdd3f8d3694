/*
 * probe [serve [MODEL]]  serves HTTP; answer.c has the table of its paths
 * probe facts            prints what GET /facts says, once
 *
 * The same program is called vllm in the image, so that the command line of a vLLM Deployment starts it: options of
 * vLLM's that mean nothing here are named on stderr and let pass.
 */
#include "probe.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT 8000

static const char usage[] =
    "usage: probe [serve [MODEL]] [--model NAME] [--served-model-name NAME] [--host ADDRESS] [--port NUMBER]\n"
    "       probe facts\n";

/* As the first process of a container it would ignore these signals without a handler. */
static void stop(int signal)
{
    (void)signal;
    _exit(0);
}

static int print_facts(void)
{
    struct text text = {0};

    facts(&text);
    text_add(&text, "\n", 1);
    if (text.failed || fputs(text.bytes, stdout) == EOF || fflush(stdout) == EOF) {
        fprintf(stderr, "probe: cannot write\n");
        return 1;
    }
    text_free(&text);
    return 0;
}

struct option {
    const char *name, *value;
};

enum { MODEL, SERVED_NAME, HOST, PORT_NUMBER, OPTIONS };

/* Takes "--name value" or "--name=value"; *at goes to the last word it took. Returns -1 when the value is missing. */
static int take(struct option *options, char **argv, int argc, int *at)
{
    const char *word = argv[*at];
    size_t length = strcspn(word, "=");
    int i;

    for (i = 0; i < OPTIONS; i++) {
        if (strlen(options[i].name) != length || strncmp(options[i].name, word, length) != 0)
            continue;
        if (word[length] == '\0' && *at + 1 == argc)
            return -1;
        options[i].value = word[length] == '=' ? word + length + 1 : argv[++*at];
        return 0;
    }
    fprintf(stderr, "probe: not used: %s\n", word);
    return 0;
}

static int read_port(const char *text, unsigned int *port)
{
    char *rest;
    unsigned long number = strtoul(text, &rest, 10);

    if (*text < '0' || *text > '9' || *rest != '\0' || number > 65535)
        return -1;
    *port = (unsigned int)number;
    return 0;
}

int main(int argc, char **argv)
{
    struct option options[OPTIONS] = {
        [MODEL] = {"--model", NULL},
        [SERVED_NAME] = {"--served-model-name", NULL},
        [HOST] = {"--host", NULL},
        [PORT_NUMBER] = {"--port", NULL},
    };
    unsigned int port = PORT;
    int at = 1;

    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    if (argc == 2 && strcmp(argv[1], "facts") == 0)
        return print_facts();
    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        at = 2;
    if (at == 2 && argc > 2 && argv[2][0] != '-')
        options[MODEL].value = argv[at++];
    if (at == 1 && argc > 1 && argv[1][0] != '-') {
        fputs(usage, stderr);
        return 2;
    }
    for (; at < argc; at++) {
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0)
            return fputs(usage, stdout) == EOF;
        if (take(options, argv, argc, &at) != 0) {
            fprintf(stderr, "probe: %s needs a value\n", argv[at]);
            return 2;
        }
    }
    if (options[PORT_NUMBER].value != NULL && read_port(options[PORT_NUMBER].value, &port) != 0) {
        fprintf(stderr, "probe: %s is no port\n", options[PORT_NUMBER].value);
        return 2;
    }
    echo_model = options[SERVED_NAME].value != NULL ? options[SERVED_NAME].value : options[MODEL].value;
    return serve(options[HOST].value, port);
}
