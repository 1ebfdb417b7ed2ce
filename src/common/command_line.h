/*
 * command_line.h - options and arguments of a program, defined by a table that --help shows.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* An option such as "-s, --size B  bytes in a write (1 to 1048576; 2)". Exactly one of the pointers
   is set; it gives the kind and the variable, whose initial value is the default and appears in the
   help. A table has room for MAX_OPTIONS, and ends with the first empty entry. */
enum { MAX_OPTIONS = 24 };

struct program_option {
    const char *name;  /* name without "--", or NULL */
    char letter;       /* letter without "-", or 0 */
    const char *value; /* name of the value in the help; NULL for a flag */
    const char *help;
    bool *flag;
    int64_t *number; /* whole number, min to max */
    double *decimal; /* decimal number, min to max */
    const char **text;
    int *choice;                     /* index of the name; NULL ends the names */
    void (*each)(const char *value); /* called each time that the option is given */
    double min, max;
    const char *const *names;
    const char *zero; /* word for the number 0, e.g. "auto" */
};

/* A buffer size; "auto", or 0, leaves it to the kernel. */
#define BUFFER_SIZE(variable) .number = &(variable), .min = 1, .max = 1 << 30, .zero = "auto"

struct command {
    const char *usage;                    /* "tcpsource [OPTION]... HOST" */
    const char *summary;                  /* description in the help */
    const struct program_option *options; /* or NULL */
    int arguments[2];                     /* least and most arguments, without options */
    bool tcp, listens; /* whether it has the common options of TCP, and of servers */
    bool nodelay;      /* whether it has --nodelay */
    const char *port;  /* help of --port, or NULL if it has none */
    const char *logs;  /* what --log records */
    bool bare;         /* has only --help, as a part of the laboratory */
    void (*more_help)(void);
};

/* The options that all programs of the course share. */
extern struct common {
    bool json;              /* --json: one JSON object instead of lines of text */
    int64_t cpu;            /* --cpu N, or -1 */
    double deadline_s;      /* --deadline SECONDS without progress; 0 for no limit */
    const char *congestion; /* --congestion NAME, or NULL for the system's default */
    bool nodelay;           /* --nodelay: switch Nagle's algorithm off */
    const char *port;       /* --port PORT */
    const char *log;        /* --log FILE, or NULL */
    const char *bind;       /* --bind ADDRESS of a server, or NULL for all */
} common;

/* Starts a program: sets up signals and standard streams (see process.h), parses the options, opens
   the file of --log and pins the CPU of --cpu. Returns the remaining arguments. */
char **start_program(int argc, char **argv, const struct command *command);

/* Sets the options' variables; returns the remaining arguments. */
char **parse_command_line(int argc, char **argv, const struct command *command);

/* Returns the index of text among the names (NULL ends them), or reports a usage error. */
int one_of(const char *name, const char *text, const char *const *names);

/* Parses a whole number between min and max, or reports a usage error. */
int64_t whole_number(const char *name, const char *text, int64_t min, int64_t max);
