/* filter.c - see filter.h. */
#include "filter.h"

#include "architecture.h"
#include "process.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By their numbers there: socketcall(2), socket(2). */
#if defined(__x86_64__)
enum { OTHER_SOCKETCALL = 102, OTHER_SOCKET = 359 };
#elif defined(__aarch64__)
enum { OTHER_SOCKETCALL = 102, OTHER_SOCKET = 281 };
#endif

/* Linux 5.19; before it a signal may interrupt a call that we have seen, which then comes again. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

static const struct watched_call calls[] = {
    {SYS_write, WRITES, 0, REGISTER, 2, -1},
    {SYS_writev, WRITES, 0, VECTOR, 1, -1},
    {SYS_sendto, WRITES, 0, REGISTER, 2, 3},
    {SYS_sendmsg, WRITES, 0, MESSAGE, 1, 2},
    {SYS_sendmmsg, WRITES, 0, MESSAGES, 1, 3},
    {SYS_sendfile, WRITES, 0, REGISTER, 3, -1},
    {SYS_splice, WRITES, 2, REGISTER, 4, -1},
    {SYS_read, READS, 0, NO_SIZE, -1, -1},
    {SYS_readv, READS, 0, NO_SIZE, -1, -1},
    {SYS_recvfrom, READS, 0, NO_SIZE, -1, -1},
    {SYS_recvmsg, READS, 0, NO_SIZE, -1, -1},
    {SYS_recvmmsg, READS, 0, NO_SIZE, -1, -1},
    {SYS_accept4, ANSWERS, 0, NO_SIZE, -1, -1},
#ifdef SYS_accept
    {SYS_accept, ANSWERS, 0, NO_SIZE, -1, -1},
#endif
    {SYS_connect, CONNECTS, 0, NO_SIZE, -1, -1},
    {SYS_listen, LISTENS, 0, NO_SIZE, -1, -1},
    {SYS_setsockopt, SETS, 0, NO_SIZE, -1, -1},
    {SYS_shutdown, SHUTS, 0, NO_SIZE, -1, -1},
    {SYS_close, CLOSES, 0, NO_SIZE, -1, -1},
    {SYS_execve, EXECS, -1, NO_SIZE, -1, -1},
    {SYS_io_uring_setup, UNSEEN, -1, NO_SIZE, -1, -1},
};
enum { CALLS = sizeof calls / sizeof *calls };

const struct watched_call *find_call(int number) {
    for (size_t i = 0; i < CALLS; i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}

#ifdef THIS_ARCHITECTURE

bool is_native(unsigned architecture) {
    return architecture == THIS_ARCHITECTURE;
}

/* A seccomp filter is a program for a small machine that sees the call's number and arguments. */
static struct sock_filter code[2 * CALLS + 16];
static unsigned short code_length;

static void emit(struct sock_filter instruction) {
    code[code_length++] = instruction;
}

static void answer(unsigned what) {
    emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

static void load(size_t offset) {
    emit((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

static void notify_of(unsigned number) {
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    answer(SECCOMP_RET_USER_NOTIF);
}

/* 32-bit programs have other numbers: just enough of them to say that there is one. */
static void write_filter(void) {
    load(offsetof(struct seccomp_data, arch));
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 6, 0));
#ifdef OTHER_ARCHITECTURE
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OTHER_ARCHITECTURE, 0, 4));
    load(offsetof(struct seccomp_data, nr));
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OTHER_SOCKETCALL, 1, 0));
    notify_of(OTHER_SOCKET);
#else
    for (int i = 0; i < 5; i++)
        answer(SECCOMP_RET_ALLOW);
#endif
    answer(SECCOMP_RET_ALLOW);
    load(offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < CALLS; i++)
        notify_of((unsigned)calls[i].number);
    answer(SECCOMP_RET_ALLOW);
}

int install_filter(void) {
    write_filter();
    struct sock_fprog program = {.len = code_length, .filter = code};
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        fail("PR_SET_NO_NEW_PRIVS");
    int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                          flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
    if (fd < 0 && errno == EINVAL)
        fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (fd < 0 && errno == EBUSY)
        fail_because("a filter that notifies is there already (are we recorded ourselves?)");
    if (fd < 0)
        fail("the seccomp filter");
    return fd;
}

#else

bool is_native(unsigned architecture) {
    (void)architecture;
    return false;
}

int install_filter(void) {
    fail_because("recording calls is not known on this architecture");
}

#endif
