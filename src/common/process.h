/*
 * process.h - how a program of the course starts, fails and ends.
 *
 * Whatever goes wrong ends the program with one line on standard error: exit status 2 for a mistake
 * in the command line, 1 for anything that went wrong later.
 */
#ifndef TCPLAB_PROCESS_H
#define TCPLAB_PROCESS_H

#include <stddef.h>
#include <stdio.h>

/*
 * Every program starts here: a peer that is gone becomes EPIPE instead of a
 * silent death, Ctrl-C says so, and a socket never takes the place of a closed
 * standard stream.
 */
void start_program(void);

/* "prog: what: EPIPE: Broken pipe", exit status 1. Reads errno. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same without errno, for failures that no system call reported. */
_Noreturn void fail_because(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "prog: what (try --help)", exit status 2. */
_Noreturn void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* calloc, or the end of the program. */
void *allocate(size_t count, size_t size);

/* Flushes the result; a closed or full output is a failure, not a silence. */
void finish_output(FILE *out);

#endif
