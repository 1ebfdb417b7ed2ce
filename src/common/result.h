/*
 * result.h - clocks, what a program has used, and its result as sentences or as JSON.
 */
#ifndef TCPLAB_RESULT_H
#define TCPLAB_RESULT_H

#include "json.h"
#include "socket_options.h"
#include "tcp_info.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

int64_t clock_ns(clockid_t clock);

/* What the process has used, or used between two moments. */
struct usage {
    int64_t wall_ns, user_ns, system_ns;
    int64_t voluntary_switches, involuntary_switches;
    int64_t minor_faults, major_faults;
};

struct usage usage_now(void);
struct usage usage_since(const struct usage *start);

/* "0.0095 s by the clock, 0.0010 user, 0.0079 system" */
void print_usage(FILE *out, const struct usage *used);

/* Bytes over wall time, in 10^6 bytes a second. */
double mb_per_s(int64_t bytes, const struct usage *used);

/* A line with bytes, times, MB/s, CPU seconds per GB, system calls, switches and faults. */
void print_costs(FILE *out, int64_t bytes, const struct usage *used, int64_t system_calls);

/* User and system time for 10^9 bytes. */
double cpu_s_per_gb(int64_t bytes, const struct usage *used);

/* Sorts the samples; afterwards percentile() takes any share between 0 and 1 (nearest rank). */
void sort_samples(int64_t *samples, size_t count);
int64_t percentile(const int64_t *sorted, size_t count, double share);

/*
 * The result of a program: json_result begins the object with the program's name and what it used;
 * json_end_result adds the options and the TCP_INFO (NULL for UDP), and ends the line.
 */
struct json json_result(FILE *out, const struct usage *used);
void json_end_result(struct json *j, const struct socket_options *options,
                     const struct tcp_info *info);

/* An object of min, median, p99 and max in microseconds, from sorted samples in ns. */
void json_samples_us(struct json *j, const char *key, const int64_t *sorted, size_t count);

#endif
