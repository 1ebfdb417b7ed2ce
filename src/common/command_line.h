/*
 * command_line.h - options and arguments: a table says what a program takes, and --help shows it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One option: "-s, --size B  bytes in a write (1 to 1048576; 2)". Exactly one of the pointers says
   what kind it is and where it goes; what is there at first is the default, and appears in the
   help. A table has room for MAX_OPTIONS, and ends with the first that is empty. */
enum { MAX_OPTIONS = 24 };

struct program_option {
    const char *name;  /* without the "--"; or NULL */
    char letter;       /* without the "-"; or 0 */
    const char *value; /* how the help calls the value; NULL for a flag */
    const char *help;
    bool *flag;
    int64_t *number; /* whole, min to max */
    double *decimal; /* min to max */
    const char **text;
    int *choice;                     /* index among the names (NULL at the end) */
    void (*each)(const char *value); /* called for each time that the option is given */
    double min, max;
    const char *const *names;
    const char *zero; /* the word for number 0, e.g. "auto" */
};

/* A buffer size, where 0, "auto", leaves it to the kernel. */
#define BUFFER_SIZE(variable) .number = &(variable), .min = 1, .max = 1 << 30, .zero = "auto"

struct command {
    const char *usage;   /* "tcpsource [OPTION]... HOST" */
    const char *summary; /* what it does, for the help */
    const struct program_option *options;
    int arguments[2];  /* at least, at most, not counting the options */
    bool tcp, listens; /* which of the common options it takes */
    const char *logs;  /* --log: what it records */
    bool bare;         /* none of them but --help: a part of the laboratory */
    void (*more_help)(void);
};

/* What every program of the course takes, beside its own options. */
extern struct common {
    bool json;              /* --json: one JSON object instead of lines of text */
    int64_t cpu;            /* --cpu N, or -1 */
    double deadline_s;      /* --deadline SECONDS without progress; 0 means for ever */
    const char *congestion; /* --congestion NAME, or NULL for the system's choice */
    const char *log;        /* --log FILE of a program that logs, or NULL */
    const char *bind;       /* --bind ADDRESS of a listening program, or NULL for all */
} common;

/* Every program starts here: signals and standard streams as process.h says, the options, the file
   of --log, the CPU of --cpu. Returns the arguments that are left. */
char **start_program(int argc, char **argv, const struct command *command);

/* Sets the variables behind the options, and returns the arguments that are left. */
char **parse_command_line(int argc, char **argv, const struct command *command);

/* The index of text among the names (NULL at the end), or a usage error that lists them. */
int one_of(const char *name, const char *text, const char *const *names);

/* A whole number between min and max, or a usage error that names all of them. */
int64_t whole_number(const char *name, const char *text, int64_t min, int64_t max);
