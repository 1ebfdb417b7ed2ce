/*
 * process.h - start, failure and end of a program of the course; children, files and clocks.
 *
 * Every failure ends the program with one line on standard error, and with exit status 2 for a
 * usage error or 1 for a later failure.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Used by start_program(). Makes a lost peer cause EPIPE instead of a silent SIGPIPE, and keeps
   sockets from taking the number of a closed standard stream. */
void prepare_process(void);

/* For a program that ends with its standard input. SIGINT, SIGTERM and SIGHUP end the input, so
   that there is one way to end. A lost reader of its output causes EPIPE. */
void end_input_on_signals(void);

/* Report errno, as in "prog: what: EPIPE: Broken pipe", a failure without errno, or a usage error,
   as in "prog: what (try --help)"; exit with 1, 1, 2. The arguments are those of printf(). */
#define fail(...) exit_with_message(1, errno, __VA_ARGS__)
#define fail_because(...) exit_with_message(1, 0, __VA_ARGS__)
#define usage_error(...) exit_with_message(2, 0, __VA_ARGS__)

_Noreturn void exit_with_message(int status, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Executes the command; on failure, exits with a shell's status 127 or 126. */
_Noreturn void execute(char **command);

/* Calls calloc; ends the program on failure. */
void *allocate(size_t count, size_t size);

/* Returns pages of zeros for the program's lifetime. The kernel copies from and to the start of a
   page with 2 to 4 % less CPU time than with calloc's memory, which splits its cache lines. */
void *allocate_pages(size_t bytes);

/* Calls fork(2); returns 0 in the child. */
pid_t fork_process(void);

/* Returns a descriptor that becomes readable when the process ends. Unlike a PID, it is never
   reused for another process. `who` is for the message. */
int open_process(pid_t pid, const char *who);

/* Waits for the child's end; returns its status as in waitpid(2). */
int wait_for_child(pid_t child);

/* Reaps all ended children; returns true and sets *status if `child` is one of them. */
bool reap(pid_t child, int *status);

/* Replaces the standard streams with /dev/null. They belong to the child, and a copy held here
   would hide that the child closes its own. */
void close_standard_streams(void);

/* Enters a new user namespace, in which the caller keeps its uid and gid, so that files and
   `whoami` look the same as outside. */
void enter_user_namespace(uid_t uid, gid_t gid);

/* Writes all bytes; returns false with errno set on failure. */
bool write_all(int fd, const void *bytes, size_t length);

/* Writes a whole file in one write, as /proc requires; creates it if it is missing. */
void write_file(const char *path, const char *text);

int64_t clock_ns(clockid_t clock);

/* Sleeps until this time of CLOCK_MONOTONIC. */
void sleep_until_ns(int64_t monotonic_ns);

/* Flushes the result; fails if the output is closed or full. */
void finish_output(FILE *out);
