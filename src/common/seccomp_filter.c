/* seccomp_filter.c - see seccomp_filter.h. */
#include "seccomp_filter.h"

static struct sock_filter code[256];
struct sock_fprog seccomp_filter = {.filter = code};

static void add(int operation, unsigned value, size_t if_true, size_t if_false) {
    code[seccomp_filter.len++] = (struct sock_filter){(__u16)operation, .jt = (__u8)if_true,
                                                      .jf = (__u8)if_false, .k = value};
}

void filter_load(size_t offset) {
    add(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0);
}

void filter_skip(int test, unsigned value, size_t if_true, size_t if_false) {
    add(BPF_JMP | BPF_K | test, value, if_true, if_false);
}

void filter_answer(unsigned what) {
    add(BPF_RET | BPF_K, what, 0, 0);
}

void filter_answer_if_equal(unsigned value, unsigned what) {
    filter_skip(BPF_JEQ, value, 0, 1);
    filter_answer(what);
}
