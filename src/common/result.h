/*
 * result.h - the resources that a program used, and its result: a table of fields, printed as lines
 * "NAME VALUE" or, with --json, as one object.
 */
#pragma once

#include "json.h"
#include "socket_options.h"
#include "tcp_info.h"

#include <sys/resource.h>

/* The resources that the process has used so far. */
struct usage {
    int64_t wall_ns;
    struct rusage process;
};

struct usage usage_now(void);

/* Times of single steps, in the order in which they were taken. */
struct samples {
    int64_t *ns;
    size_t count;
};

/* ---- a program's measurement ---- */

struct measurement {
    struct socket_options granted;
    struct usage start, end;
    struct tcp_info info; /* set for a TCP socket */
};

/* Reads the granted options, and starts the clock. */
struct measurement start_measuring(int fd);

/* Stops the clock, and reads TCP_INFO. */
void stop_measuring(struct measurement *m, int fd);

/* Returns the user and system time between start and stop. */
double cpu_s(const struct measurement *m);

/* One value of a result, whose kind is given by the one pointer that is set. A table has room for
   MAX_FIELDS, and ends with the first empty entry. */
enum { MAX_FIELDS = 24 };

struct result_field {
    const char *name;
    const int64_t *whole;
    const double *decimal; /* null in JSON if it is not finite */
    const bool *flag;
    const int *choice; /* index of the name */
    const char *const *names;
    struct samples *samples; /* printed as min, median, p99 and max in us; sorts them */
    const int64_t *rate_of;  /* a count, printed as a rate over the measured time */
    double unit;             /* unit of the rate, in counts per second */
};

/* A rate in 10^6 bytes per second. */
#define MB_PER_S(variable) .rate_of = &(variable), .unit = 1e6

/* Prints the used resources, the fields, the socket's options and TCP_INFO, and writes the file of
   --log. */
void print_result(FILE *out, const struct result_field *fields, const struct measurement *m);

/* Begins the result of a program that has no socket. */
struct json start_result(FILE *out);
