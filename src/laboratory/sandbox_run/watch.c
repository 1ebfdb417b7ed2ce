/* watch.c - see watch.h. */
#define _GNU_SOURCE
#include "watch.h"

#include "process.h"
#include "result.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void limit(int resource, int64_t most, const char *name) {
    struct rlimit now;
    if (getrlimit(resource, &now) < 0)
        fail("%s", name);
    if (now.rlim_max == RLIM_INFINITY || now.rlim_max > (rlim_t)most)
        now.rlim_max = (rlim_t)most;
    now.rlim_cur = now.rlim_max;
    if (setrlimit(resource, &now) < 0)
        fail("%s", name);
}

void set_limits(const struct limits *limits) {
    limit(RLIMIT_CPU, limits->cpu_s + 1, "RLIMIT_CPU"); /* should the watch starve */
    limit(RLIMIT_AS, limits->process_bytes, "RLIMIT_AS");
    limit(RLIMIT_FSIZE, limits->file_bytes, "RLIMIT_FSIZE");
    limit(RLIMIT_NOFILE, 1024, "RLIMIT_NOFILE");
    limit(RLIMIT_CORE, 0, "RLIMIT_CORE");
    limit(RLIMIT_MSGQUEUE, 65536, "RLIMIT_MSGQUEUE");
    /* Counted in the user namespace that was just made (Linux 5.14), so only what is in here. Root
       is exempt; for root, and for older kernels, there is the watch, which the surplus is for. */
    limit(RLIMIT_NPROC, limits->processes + 8, "RLIMIT_NPROC");
}

/* The text of /proc/PID/NAME, without the process's name, which ends with the last ')'. */
static bool read_numbers(const char *pid, const char *name, char *text, size_t size) {
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    char *name_end = strrchr(text, ')');
    if (name_end)
        memmove(text, name_end + 1, strlen(name_end + 1) + 1);
    return length > 0;
}

/* What a process has resident, and the time that it and its children before it used: proc(5). */
static void add_process(struct watch *seen, const char *pid) {
    char text[1024];
    long long pages, ticks[4];
    seen->processes++;
    if (read_numbers(pid, "statm", text, sizeof text) && sscanf(text, "%*d %lld", &pages) == 1)
        seen->bytes += pages * sysconf(_SC_PAGESIZE);
    if (read_numbers(pid, "stat", text, sizeof text) &&
        sscanf(text, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %lld %lld", &ticks[0],
               &ticks[1], &ticks[2], &ticks[3]) == 4)
        seen->cpu_ms += (ticks[0] + ticks[1] + ticks[2] + ticks[3]) * 1000 / sysconf(_SC_CLK_TCK);
}

static int64_t reaped_cpu_ms(void) {
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

void watch_look(struct watch *seen) {
    DIR *proc = opendir("/proc");
    if (!proc)
        return;
    seen->bytes = seen->processes = 0;
    seen->cpu_ms = reaped_cpu_ms();
    for (struct dirent *entry; (entry = readdir(proc));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && strcmp(entry->d_name, "1") != 0)
            add_process(seen, entry->d_name);
    closedir(proc);
    if (seen->bytes > seen->peak_bytes)
        seen->peak_bytes = seen->bytes;
    if (seen->processes > seen->peak_processes)
        seen->peak_processes = seen->processes;
}

const char *limit_passed(struct watch *seen, const struct limits *limits) {
    watch_look(seen);
    if (seen->processes > limits->processes)
        return "processes";
    if (seen->bytes > limits->memory_bytes)
        return "memory";
    if (seen->cpu_ms > limits->cpu_s * 1000)
        return "cpu";
    if (clock_ns(CLOCK_MONOTONIC) - seen->start_ns > limits->wall_s * 1000000000)
        return "wall";
    return NULL;
}
