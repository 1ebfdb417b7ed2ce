/* filter.c - see filter.h. */
#include "filter.h"

#include "process.h"
#include "seccomp_filter.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The 32-bit numbers of socketcall(2) and socket(2). */
#if defined(__x86_64__)
enum { OTHER_SOCKETCALL = 102, OTHER_SOCKET = 359 };
#elif defined(__aarch64__)
enum { OTHER_SOCKETCALL = 102, OTHER_SOCKET = 281 };
#endif

/* Since Linux 5.19. In older kernels a signal may interrupt a notified call, which is repeated. */
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
    {SYS_accept, ANSWERS, 0, NO_SIZE, -1, -1},
    {SYS_connect, CONNECTS, 0, NO_SIZE, -1, -1},
    {SYS_listen, LISTENS, 0, NO_SIZE, -1, -1},
    {SYS_setsockopt, SETS, 0, NO_SIZE, -1, -1},
    {SYS_shutdown, SHUTS, 0, NO_SIZE, -1, -1},
    {SYS_close, CLOSES, 0, NO_SIZE, -1, -1},
    {SYS_execve, EXECS, -1, NO_SIZE, -1, -1},
    {SYS_io_uring_setup, UNSEEN, -1, NO_SIZE, -1, -1},
    /* Not SYS_nanosleep, which the scheduler of Go calls thousands of times per second. */
    {SYS_clock_nanosleep, SLEEPS, -1, NO_SIZE, 2, 1},
    {SYS_ppoll, POLLS, -1, TIMESPEC, 2, -1},
    {SYS_pselect6, POLLS, -1, TIMESPEC, 4, -1},
    {SYS_epoll_pwait, POLLS, -1, MILLISECONDS, 3, -1},
    {SYS_epoll_pwait2, POLLS, -1, TIMESPEC, 3, -1},
#ifdef SYS_poll /* older calls, which ARM has never had */
    {SYS_poll, POLLS, -1, MILLISECONDS, 2, -1},
    {SYS_select, POLLS, -1, TIMEVAL, 4, -1},
    {SYS_epoll_wait, POLLS, -1, MILLISECONDS, 3, -1},
#endif
    {SYS_exit_group, EXITS, -1, NO_SIZE, -1, -1},
};

const struct watched_call *find_call(int number) {
    for (size_t i = 0; i < COUNT(calls); i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}

/* 32-bit programs have other numbers; the filter checks only enough of them to detect one. */
static void write_filter(void) {
    filter_load(offsetof(struct seccomp_data, arch));
#ifdef OTHER_ARCHITECTURE
    filter_skip(BPF_JEQ, OTHER_ARCHITECTURE, 0, 5);
    filter_load(offsetof(struct seccomp_data, nr));
    filter_skip(BPF_JEQ, OTHER_SOCKETCALL, 1, 0);
    filter_answer_if_equal(OTHER_SOCKET, SECCOMP_RET_USER_NOTIF);
    filter_answer(SECCOMP_RET_ALLOW);
#endif
    filter_skip(BPF_JEQ, THIS_ARCHITECTURE, 1, 0);
    filter_answer(SECCOMP_RET_ALLOW);
    filter_load(offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < COUNT(calls); i++)
        filter_answer_if_equal((unsigned)calls[i].number, SECCOMP_RET_USER_NOTIF);
    filter_answer(SECCOMP_RET_ALLOW);
}

int install_filter(void) {
    if (!THIS_ARCHITECTURE)
        fail_because("recording calls is not supported on this architecture");
    write_filter();
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        fail("PR_SET_NO_NEW_PRIVS");
    int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                          flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &seccomp_filter);
    if (fd < 0 && errno == EINVAL)
        fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &seccomp_filter);
    if (fd < 0 && errno == EBUSY)
        fail_because("a filter that notifies is there already (are we recorded ourselves?)");
    if (fd < 0)
        fail("the seccomp filter");
    return fd;
}
