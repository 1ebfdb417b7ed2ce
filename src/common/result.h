/*
 * result.h - what a program has used, and its result: a table of fields, printed as lines
 * "NAME VALUE" or, with --json, as one object.
 */
#pragma once

#include "json.h"
#include "socket_options.h"
#include "tcp_info.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

/* What the process has used so far. */
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

/* ---- what a program measured ---- */

struct measurement {
    struct socket_options granted;
    struct usage start, end;
    struct tcp_info info; /* of a TCP socket */
};

/* Reads what the kernel granted, and starts the clock. */
struct measurement start_measuring(int fd);

/* Stops the clock, and reads TCP_INFO. */
void stop_measuring(struct measurement *m, int fd);

/* User and system time in between. */
double cpu_s(const struct measurement *m);

/* One value of a result: exactly one of the pointers says what kind it is. A table has room for
   MAX_FIELDS, and ends with the first that is empty. */
enum { MAX_FIELDS = 24 };

struct result_field {
    const char *name;
    const int64_t *whole;
    const double *decimal; /* not finite: null in JSON */
    const bool *flag;
    const int *choice; /* index among the names */
    const char *const *names;
    struct samples *samples; /* min, median, p99 and max in microseconds; sorts them */
    const int64_t *rate_of;  /* this many, in the time measured ... */
    double unit;             /* ... as multiples of this per second */
};

/* A rate in 10^6 bytes per second. */
#define MB_PER_S(variable) .rate_of = &(variable), .unit = 1e6

/* Prints what the program used, its fields, the socket's options and TCP_INFO, and writes the file
   of --log. */
void print_result(FILE *out, const struct result_field *fields, const struct measurement *m);

/* The beginning of it, for a program that has no socket. */
struct json start_result(FILE *out);
