/*
 * fuzz.h - what the fuzz targets share.
 *
 * A target includes what the programs share and, where it needs one, a program, as they are; only exit() is another
 * here: it ends the run of one input, not the fuzzer. So fail() and usage_error() are results like
 * others, and everything else that ends the process is a finding.
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

/* The run of one input: 0 when it went to its end, otherwise 1 + the exit status. */
#define RUN_ENDS() setjmp(end_of_run)

/* An invariant; abort() is what libFuzzer takes for a finding. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define exit(status) end_run(status)
#define main program_main
/* process.c lets only the first failure of the process speak; here each input may have one. */
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
