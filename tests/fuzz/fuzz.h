/*
 * fuzz.h - what the fuzz targets share.
 *
 * A target includes the programs' common code and possibly a program, unchanged. Only exit() is
 * replaced. It ends the run of one input instead of the fuzzer, so fail() and usage_error() are
 * valid results, and anything else that ends the process is a finding.
 */
#ifndef TCPLAB_FUZZ_H
#define TCPLAB_FUZZ_H

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static jmp_buf end_of_run;

static _Noreturn void end_run(int status) {
    longjmp(end_of_run, status + 1);
}

/* Returns 0 at first, and 1 + the exit status when end_run() ends the run of this input. */
#define RUN_ENDS() setjmp(end_of_run)

/* Checks an invariant. libFuzzer treats abort() as a finding. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define exit(status) end_run(status)
#define main program_main
/* process.c reports only the first failure of a process, but here each input may fail. */
#undef atomic_flag_test_and_set
#define atomic_flag_test_and_set(flag) ((void)(flag), false)

#include "../../src/common/cached_file.c"
#include "../../src/common/command_line.c"
#include "../../src/common/event_log.c"
#include "../../src/common/json.c"
#include "../../src/common/net.c"
#include "../../src/common/process.c"
#include "../../src/common/result.c"
#include "../../src/common/socket_options.c"
#include "../../src/common/tcp_info.c"

#endif
