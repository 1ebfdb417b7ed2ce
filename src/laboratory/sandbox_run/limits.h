/*
 * limits.h - the limits of a submission: limits of each process, a watch over all of them, and the
 * system calls that are refused.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct limits {
    int64_t memory_bytes, processes, wall_s, cpu_s; /* totals; a thread counts as a process */
    int64_t file_bytes, process_bytes;              /* limits per process (setrlimit(2)) */
};

/* Limits this process and its descendants. */
void set_limits(const struct limits *limits);

/* Limits the number of namespaces of each kind, since a network namespace costs the kernel more
   than its creator. The caller must be in a new user namespace, with all capabilities in it. */
void limit_namespaces(void);

/* Resources of all other processes in the PID namespace, as seen by process 1. */
struct watch {
    int64_t start_ns;
    /* Current values. Shared pages count once per process, and each socket as if it were full.
       mapped_bytes are of files and shared memory, resident or not. */
    int64_t bytes, mapped_bytes, processes, tasks;
    int64_t cpu_ms;
};

void watch_start(struct watch *seen);

/* Returns false if not all processes could be seen. */
bool watch_look(struct watch *seen);

/* Looks, and returns the exceeded limit, "watch" if it could not look, or NULL. */
const char *limit_passed(struct watch *seen, const struct limits *limits);

/* Refuses the calls that only a kernel's developer or attacker needs, in this process and its
   descendants. With no_lab it also refuses calls that make namespaces, mounts, and sockets with
   uncounted memory. no_file_reads is NULL or the name of the command to be executed. With it a
   call that reads a file into memory or executes another program ends the process by SIGSYS, and no
   data can be received from a socket. Source: seccomp(2). */
void refuse_system_calls(bool no_lab, const char *no_file_reads);
