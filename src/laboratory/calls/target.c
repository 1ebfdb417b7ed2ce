/* target.c - see target.h. */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* A cache of process descriptors for the tasks that called last, by task number. */
enum { KEPT = 256 };
static struct {
    pid_t task, process;
    int fd;
} kept[KEPT];

void read_about(pid_t task, const char *name, char *text, size_t size) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/%s", task, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = '\0';
}

/* A pidfd refers to a process, but a call is made by one of its threads. */
static pid_t look_up_process(pid_t task) {
    char text[1024];
    read_about(task, "status", text, sizeof text);
    const char *group = strstr(text, "\nTgid:");
    return group ? (pid_t)strtol(group + 6, NULL, 10) : task;
}

static void forget(unsigned slot) {
    if (kept[slot].task)
        close(kept[slot].fd);
    kept[slot].task = 0;
}

static int open_process(pid_t task) {
    unsigned slot = (unsigned)task % KEPT;
    if (kept[slot].task == task)
        return kept[slot].fd;
    forget(slot);
    pid_t process = look_up_process(task);
    int fd = (int)syscall(SYS_pidfd_open, process, 0);
    if (fd >= 0) {
        kept[slot].task = task;
        kept[slot].process = process;
        kept[slot].fd = fd;
    }
    return fd;
}

pid_t process_of(pid_t task) {
    return open_process(task) < 0 ? task : kept[(unsigned)task % KEPT].process;
}

int borrow(pid_t task, int fd) {
    for (int attempt = 0; attempt < 2; attempt++) {
        int process = open_process(task);
        if (process < 0)
            return -1;
        int copy = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
        if (copy >= 0 || errno != ESRCH)
            return copy;
        forget((unsigned)task % KEPT); /* its number belongs to another process now */
    }
    return -1;
}

size_t copy_from(pid_t task, uint64_t address, void *to, size_t size) {
    struct iovec local = {.iov_base = to, .iov_len = size};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = size};
    ssize_t copied = process_vm_readv(task, &local, 1, &remote, 1, 0);
    return copied > 0 ? (size_t)copied : 0;
}
