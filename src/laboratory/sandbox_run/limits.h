/*
 * limits.h - what a submission may use: limits of each process, a watch over all of them, and the
 * system calls that none of them may make.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct limits {
    int64_t memory_bytes, processes, wall_s, cpu_s; /* of all together; a thread is a process */
    int64_t file_bytes, process_bytes;              /* of each: setrlimit(2) */
};

/* Limits this process and what it starts. */
void set_limits(const struct limits *limits);

/* In a user namespace of one's own, with all capabilities in it: limits how many of each kind there
   may be in it, for a network namespace is more work for the kernel than for who makes it. */
void limit_namespaces(void);

/* What process 1 of a PID namespace sees of all the others. */
struct watch {
    int64_t start_ns;
    /* Now. Shared pages count as often as they are shared, and each socket as if it were full;
       mapped_bytes are of files and shared memory, resident or not. */
    int64_t bytes, mapped_bytes, processes, tasks;
    int64_t cpu_ms;
};

void watch_start(struct watch *seen);

/* False: not all could be seen. */
bool watch_look(struct watch *seen);

/* Looks, and names the limit that was passed: "watch" when it could not look. NULL if none was. */
const char *limit_passed(struct watch *seen, const struct limits *limits);

/* Refuses, from now on and in all that is started, the calls that only a kernel's developer or
   attacker needs; with no_lab also those that make namespaces, mounts, and sockets of memory that
   is not counted. With no_file_reads a call that brings bytes of a file into memory ends the
   process by SIGSYS, and nothing comes by a socket. Source: seccomp(2). */
void refuse_system_calls(bool no_lab, bool no_file_reads);
