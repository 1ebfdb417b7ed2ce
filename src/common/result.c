/* result.c - see result.h. */
#define _GNU_SOURCE
#include "result.h"

#include "command_line.h"
#include "process.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>

/* ---- clocks and measurements ---- */

int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void sleep_until_ns(int64_t monotonic_ns) {
    struct timespec when = {monotonic_ns / 1000000000, monotonic_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
        continue;
}

static int64_t timeval_ns(struct timeval time) {
    return time.tv_sec * INT64_C(1000000000) + time.tv_usec * INT64_C(1000);
}

struct usage usage_now(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (struct usage){
        .wall_ns = clock_ns(CLOCK_MONOTONIC),
        .user_ns = timeval_ns(used.ru_utime),
        .system_ns = timeval_ns(used.ru_stime),
        .voluntary_switches = used.ru_nvcsw,
        .involuntary_switches = used.ru_nivcsw,
        .minor_faults = used.ru_minflt,
        .major_faults = used.ru_majflt,
    };
}

struct usage usage_since(const struct usage *start) {
    struct usage now = usage_now();
    return (struct usage){
        .wall_ns = now.wall_ns - start->wall_ns,
        .user_ns = now.user_ns - start->user_ns,
        .system_ns = now.system_ns - start->system_ns,
        .voluntary_switches = now.voluntary_switches - start->voluntary_switches,
        .involuntary_switches = now.involuntary_switches - start->involuntary_switches,
        .minor_faults = now.minor_faults - start->minor_faults,
        .major_faults = now.major_faults - start->major_faults,
    };
}

/* "0.0095 s by the clock, 0.0010 user, 0.0079 system" */
static void print_usage(FILE *out, const struct usage *used) {
    fprintf(out, "%.4f s by the clock, %.4f user, %.4f system", (double)used->wall_ns / 1e9,
            (double)used->user_ns / 1e9, (double)used->system_ns / 1e9);
}

static double mb_per_s(int64_t bytes, const struct usage *used) {
    return (double)bytes * 1e3 / (double)used->wall_ns;
}

static double cpu_s_per_gb(int64_t bytes, const struct usage *used) {
    return (double)(used->user_ns + used->system_ns) / (double)bytes;
}

/* ---- samples ---- */

struct samples allocate_samples(int64_t most) {
    return (struct samples){.ns = allocate((size_t)most, sizeof(int64_t))};
}

static int compare_samples(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static const struct percentile {
    const char *name;
    double share;
} percentiles[] = {{"min", 0}, {"median", 0.5}, {"p99", 0.99}, {"max", 1}, {.name = NULL}};

/* Of sorted samples, by nearest rank; NAN if there are none. */
static double percentile_us(const struct samples *samples, double share) {
    size_t rank = (size_t)ceil(share * (double)samples->count);
    return samples->count ? (double)samples->ns[rank == 0 ? 0 : rank - 1] / 1e3 : NAN;
}

/* ---- measuring ---- */

struct measurement start_measuring(int fd) {
    return (struct measurement){.granted = read_options(fd), .start = usage_now()};
}

void stop_measuring(struct measurement *m, int fd) {
    m->used = usage_since(&m->start);
    if (m->granted.is_tcp)
        m->info = read_tcp_info(fd);
}

/* ---- results as JSON ---- */

static void json_usage(struct json *j, const struct usage *used) {
    json_double(j, "wall_s", (double)used->wall_ns / 1e9);
    json_double(j, "user_s", (double)used->user_ns / 1e9);
    json_double(j, "system_s", (double)used->system_ns / 1e9);
    json_int(j, "voluntary_switches", used->voluntary_switches);
    json_int(j, "involuntary_switches", used->involuntary_switches);
    json_int(j, "minor_faults", used->minor_faults);
    json_int(j, "major_faults", used->major_faults);
}

/* What print_options prints, and the addresses. */
static void json_options(struct json *j, const struct socket_options *options) {
    json_object(j, "options");
    if (options->is_tcp) {
        json_string(j, "congestion", options->congestion);
        json_int(j, "mss_bytes", options->mss);
        json_bool(j, "nodelay", options->nodelay);
    }
    json_int(j, "sndbuf_bytes", options->sndbuf_bytes);
    json_int(j, "rcvbuf_bytes", options->rcvbuf_bytes);
    json_string(j, "local", options->local);
    json_string(j, "peer", options->peer);
    if (common.cpu < 0)
        json_null(j, "cpu");
    else
        json_int(j, "cpu", common.cpu);
    json_double(j, "deadline_s", common.deadline_s);
    json_end_object(j);
}

static void json_samples(struct json *j, const char *key, const struct samples *samples) {
    json_object(j, key);
    for (const struct percentile *p = percentiles; p->name; p++)
        json_double(j, p->name, percentile_us(samples, p->share));
    json_end_object(j);
}

static void json_field(struct json *j, const struct result_field *f, const struct usage *used) {
    if (f->whole)
        json_int(j, f->name, *f->whole);
    else if (f->decimal)
        json_double(j, f->name, *f->decimal);
    else if (f->flag)
        json_bool(j, f->name, *f->flag);
    else if (f->choice)
        json_string(j, f->name, f->names[*f->choice]);
    else if (f->samples)
        json_samples(j, f->name, f->samples);
    else if (f->mb_per_s)
        json_double(j, f->name, mb_per_s(*f->mb_per_s, used));
    else if (f->cpu_s_per_gb)
        json_double(j, f->name, cpu_s_per_gb(*f->cpu_s_per_gb, used));
    else
        f->write(j);
}

static void sort_samples(const struct result_field *fields) {
    for (const struct result_field *f = fields; f->name; f++)
        if (f->samples)
            qsort(f->samples->ns, f->samples->count, sizeof(int64_t), compare_samples);
}

void write_result_json(FILE *out, const struct result_field *fields, const struct measurement *m) {
    struct json j = json_start(out);
    sort_samples(fields);
    json_object(&j, NULL);
    json_string(&j, "program", program_invocation_short_name);
    json_usage(&j, &m->used);
    for (const struct result_field *f = fields; f->name; f++)
        json_field(&j, f, &m->used);
    json_options(&j, &m->granted);
    if (m->granted.is_tcp)
        json_tcp_info(&j, "tcp_info", &m->info);
    json_end_object(&j);
    json_finish(&j);
}

/* ---- results as text ---- */

static double number_in(const struct result_field *f, const char *part, const struct usage *used) {
    if (f->whole)
        return (double)*f->whole;
    if (f->mb_per_s)
        return mb_per_s(*f->mb_per_s, used);
    if (f->cpu_s_per_gb)
        return cpu_s_per_gb(*f->cpu_s_per_gb, used);
    for (const struct percentile *p = percentiles; f->samples && part && p->name; p++)
        if (strcmp(p->name, part) == 0)
            return percentile_us(f->samples, p->share);
    return f->decimal ? *f->decimal : NAN;
}

/* The number that "NAME" or "NAME.PART" stands for. */
static double number_of(const char *name, const char *part, const struct result_field *fields,
                        const struct measurement *m) {
    const struct usage *used = &m->used;
    if (strcmp(name, "tcp") == 0)
        return tcp_info_number(&m->info, part);
    if (strcmp(name, "wall_ms") == 0)
        return (double)used->wall_ns / 1e6;
    if (strcmp(name, "switches") == 0)
        return (double)(used->voluntary_switches + used->involuntary_switches);
    if (strcmp(name, "faults") == 0)
        return (double)(used->minor_faults + used->major_faults);
    for (const struct result_field *f = fields; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return number_in(f, part, used);
    fail_because("the result has no field %s", name);
}

static bool put_words(FILE *out, const char *name, const struct result_field *fields,
                      const struct measurement *m) {
    bool is_options = strcmp(name, "options") == 0, is_usage = strcmp(name, "usage") == 0;
    if (is_options)
        print_options(out, &m->granted);
    if (is_usage)
        print_usage(out, &m->used);
    for (const struct result_field *f = fields; f->name; f++)
        if (f->choice && strcmp(f->name, name) == 0)
            return fputs(f->names[*f->choice], out) >= 0;
    return is_options || is_usage;
}

/* "NAME[.PART][/DIVISOR][:DIGITS or auto]", the inside of the braces; cuts it apart. */
static void put_value(FILE *out, char *name, const struct result_field *fields,
                      const struct measurement *m) {
    char *format = name, *divisor, *part;
    name = strsep(&format, ":");
    divisor = name;
    name = strsep(&divisor, "/");
    if (put_words(out, name, fields, m))
        return;
    part = name;
    name = strsep(&part, ".");
    double number = number_of(name, part, fields, m) / (divisor ? atof(divisor) : 1);
    bool or_auto = format && strcmp(format, "auto") == 0;
    if (or_auto && number == 0)
        fputs("auto", out);
    else
        fprintf(out, "%.*f%s", format ? atoi(format) : 0, number, or_auto ? " bytes" : "");
}

void write_result_text(FILE *out, const struct result_field *fields, const char *text,
                       const struct measurement *m) {
    sort_samples(fields);
    for (const char *at = text; *at; at++) {
        if (*at != '{') {
            fputc(*at, out);
            continue;
        }
        char inside[64];
        size_t length = strcspn(++at, "}");
        snprintf(inside, sizeof inside, "%.*s", (int)length, at);
        put_value(out, inside, fields, m);
        at += length;
    }
    finish_output(out);
}

void print_result(const struct result_field *fields, const char *text,
                  const struct measurement *m) {
    if (common.json)
        write_result_json(stdout, fields, m);
    else
        write_result_text(stdout, fields, text, m);
}
