/*
 * process.h - how a program of the course starts, fails and ends; children, files and clocks.
 *
 * Whatever goes wrong ends the program with one line on standard error: exit status 2 for a mistake
 * in the command line, 1 for anything that went wrong later.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

/* For start_program(): a peer that is gone becomes EPIPE instead of a silent SIGPIPE, and a socket
   never takes the number of a closed standard stream. */
void prepare_process(void);

/* For a program that ends when its standard input does: SIGINT, SIGTERM and SIGHUP end the input,
   so that there is one way to end. A reader of its output that is gone becomes EPIPE. */
void end_input_on_signals(void);

/* "prog: what: EPIPE: Broken pipe", exit status 1. Reads errno. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same without errno, for failures that no system call reported. */
_Noreturn void fail_because(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "prog: what (try --help)", exit status 2. */
_Noreturn void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Becomes the command; if it cannot, ends with the exit status of a shell: 127 or 126. */
_Noreturn void execute(char **command);

/* calloc, or the end of the program. */
void *allocate(size_t count, size_t size);

/* fork(2); 0 in the child. */
pid_t fork_process(void);

/* A descriptor that can be read when the process has ended: PIDs may be reused, this never means
   another one. `who` is for the message. */
int open_process(pid_t pid, const char *who);

/* Waits for the child's end; its status as in waitpid(2). */
int wait_for_child(pid_t child);

/* Puts /dev/null in the place of the standard streams: they belong to the child that was started,
   and a copy held here would hide that it closed its own. */
void close_standard_streams(void);

/* A new user namespace, in which the caller keeps its uid and gid: files and `whoami` look the same
   as outside. */
void enter_user_namespace(uid_t uid, gid_t gid);

/* Writes all of it; false with errno set if it can't. */
bool write_all(int fd, const void *bytes, size_t length);

/* Writes a whole file, as of /proc, in one write; made if it is not there. */
void write_file(const char *path, const char *text);

int64_t clock_ns(clockid_t clock);

/* Sleeps until CLOCK_MONOTONIC says so. */
void sleep_until_ns(int64_t monotonic_ns);

/* Flushes the result; a closed or full output is a failure, not a silence. */
void finish_output(FILE *out);
