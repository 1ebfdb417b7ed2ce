/* limits.c - see limits.h. */
#include "limits.h"

#include "process.h"
#include "seccomp_filter.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/tcp.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- limits ---- */

/* The limit on each kind; a laboratory may have a hundred clients with a network each. */
static const char MOST_NAMESPACES[] = "128";

static void limit(int resource, int64_t most, const char *name) {
    struct rlimit now;
    if (getrlimit(resource, &now) < 0)
        fail("%s", name);
    if (now.rlim_max == RLIM_INFINITY || now.rlim_max > (rlim_t)most)
        now.rlim_max = (rlim_t)most;
    now.rlim_cur = now.rlim_max;
    if (setrlimit(resource, &now) < 0)
        fail("%s", name);
}

void set_limits(const struct limits *limits) {
    limit(RLIMIT_CPU, limits->cpu_s + 1, "RLIMIT_CPU"); /* if the watch starves */
    limit(RLIMIT_AS, limits->process_bytes, "RLIMIT_AS");
    limit(RLIMIT_FSIZE, limits->file_bytes, "RLIMIT_FSIZE");
    limit(RLIMIT_NOFILE, 1024, "RLIMIT_NOFILE");
    limit(RLIMIT_CORE, 0, "RLIMIT_CORE");
    limit(RLIMIT_MSGQUEUE, 65536, "RLIMIT_MSGQUEUE");
    /* Since Linux 5.14 only processes in the new user namespace count. Root is exempt, and older
       kernels count more. The watch covers these cases, so this limit has a surplus. */
    limit(RLIMIT_NPROC, limits->processes + 8, "RLIMIT_NPROC");
}

void limit_namespaces(void) {
    static const char *const kinds[] = {"user", "pid", "net",    "mnt",
                                        "ipc",  "uts", "cgroup", "time"};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/sys/user/max_%s_namespaces", kinds[i]);
        if (access(path, F_OK) == 0)
            write_file(path, MOST_NAMESPACES);
    }
}

/* ---- the watch, with which the watched processes cannot interfere ---- */

/* The number of descriptors that are not counted, and the memory for each of the others: two
   buffers of net.core.wmem_max (socket(7)). */
enum { USUAL_DESCRIPTORS = 16, SOCKET_BYTES = 2 * 212992 };

static DIR *proc;

/* Reads the text of /proc/PID/NAME after the process's name, which ends with the last ')'. The text
   is empty if the process has ended. Returns false if it cannot be read for another reason. */
static bool read_text(const char *pid, const char *name, char *text, size_t size) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", pid, name);
    int fd = openat(dirfd(proc), path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
    bool ended = length < 0 && (errno == ENOENT || errno == ESRCH);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = '\0';
    char *name_end = strrchr(text, ')');
    if (name_end)
        memmove(text, name_end + 1, strlen(name_end + 1) + 1);
    return length > 0 || ended;
}

/* Adds the memory of a socket for each descriptor beyond the usual number. Their number is known
   since Linux 6.2. */
static int64_t bytes_of_descriptors(const char *pid) {
    char path[300];
    struct stat about = {0};
    snprintf(path, sizeof path, "%s/fd", pid);
    if (fstatat(dirfd(proc), path, &about, 0) < 0 || about.st_size <= USUAL_DESCRIPTORS)
        return 0;
    return (about.st_size - USUAL_DESCRIPTORS) * SOCKET_BYTES;
}

/* Adds a process's resident memory, and the CPU time of it and its ended children (proc(5)). */
static bool add_process(struct watch *seen, const char *pid) {
    char text[1024];
    long long size, resident, code, data, ticks[4], threads;
    seen->processes++;
    if (!read_text(pid, "statm", text, sizeof text))
        return false;
    if (sscanf(text, "%lld %lld %*d %lld %*d %lld", &size, &resident, &code, &data) == 4) {
        seen->bytes += resident * sysconf(_SC_PAGESIZE) + bytes_of_descriptors(pid);
        seen->mapped_bytes += (size - code - data) * sysconf(_SC_PAGESIZE);
    }
    if (!read_text(pid, "stat", text, sizeof text))
        return false;
    if (sscanf(text,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %lld %lld %*d %*d %lld",
               &ticks[0], &ticks[1], &ticks[2], &ticks[3], &threads) == 5) {
        seen->cpu_ms += (ticks[0] + ticks[1] + ticks[2] + ticks[3]) * 1000 / sysconf(_SC_CLK_TCK);
        seen->tasks += threads;
    }
    return true;
}

/* Shared memory exists while it is mapped, resident or not (MAP_SHARED in mmap(2)). */
static bool add_shared_mappings(struct watch *seen, const char *pid) {
    char path[300], line[PATH_MAX], shared;
    unsigned long long from, to;
    snprintf(path, sizeof path, "%s/maps", pid);
    int fd = openat(dirfd(proc), path, O_RDONLY | O_CLOEXEC);
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
    if (!maps)
        return errno == ENOENT || errno == ESRCH;
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%llx-%llx %*3c%c", &from, &to, &shared) == 3 && shared == 's')
            seen->bytes += (int64_t)(to - from);
    fclose(maps);
    return true;
}

/* Calls add for each process except this one. */
static bool add_all(struct watch *seen, bool (*add)(struct watch *, const char *)) {
    rewinddir(proc);
    errno = 0;
    for (struct dirent *entry; (entry = readdir(proc)); errno = 0)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && strcmp(entry->d_name, "1") != 0 &&
            !add(seen, entry->d_name))
            return false;
    return errno == 0;
}

void watch_start(struct watch *seen) {
    seen->start_ns = clock_ns(CLOCK_MONOTONIC);
    proc = opendir("/proc");
    if (!proc)
        fail("/proc");
}

bool watch_look(struct watch *seen) {
    struct rusage reaped;
    getrusage(RUSAGE_CHILDREN, &reaped);
    seen->bytes = seen->mapped_bytes = seen->processes = seen->tasks = 0;
    seen->cpu_ms = (reaped.ru_utime.tv_sec + reaped.ru_stime.tv_sec) * 1000 +
                   (reaped.ru_utime.tv_usec + reaped.ru_stime.tv_usec) / 1000;
    return add_all(seen, add_process);
}

const char *limit_passed(struct watch *seen, const struct limits *limits) {
    bool looked = watch_look(seen);
    /* The mappings are many lines, so read them only if they could exceed the limit. */
    if (looked && seen->bytes + seen->mapped_bytes > limits->memory_bytes)
        looked = add_all(seen, add_shared_mappings);
    if (seen->tasks > limits->processes)
        return "processes";
    if (seen->bytes > limits->memory_bytes)
        return "memory";
    if (seen->cpu_ms > limits->cpu_s * 1000)
        return "cpu";
    if (clock_ns(CLOCK_MONOTONIC) - seen->start_ns > limits->wall_s * 1000000000)
        return "wall";
    return looked ? NULL : "watch";
}

/* ---- system calls ---- */

/* Calls for the machine's administrator, for a kernel's developers or attackers, for debuggers
   (they affect other processes), and calls that allocate memory outside processes: descriptors,
   System V, new file systems. */
static const int refused[] = {
    SYS_acct,   SYS_kexec_load,    SYS_init_module,      SYS_finit_module,
    SYS_reboot, SYS_delete_module, SYS_settimeofday,     SYS_clock_settime,
    SYS_swapon, SYS_swapoff,       SYS_clock_adjtime,    SYS_adjtimex,
    SYS_syslog, SYS_quotactl,      SYS_perf_event_open,  SYS_userfaultfd,
    SYS_bpf,    SYS_keyctl,        SYS_add_key,          SYS_request_key,
    SYS_ptrace, SYS_kcmp,          SYS_process_vm_readv, SYS_process_vm_writev,
    SYS_shmget, SYS_pidfd_getfd,   SYS_memfd_create,     SYS_fsconfig,
    SYS_semget, SYS_fsopen,        SYS_memfd_secret,     SYS_open_by_handle_at,
    SYS_msgget, SYS_fsmount,       SYS_fspick,
};
/* Calls that this filter would not see. Programs fall back as on a kernel without them. */
static const int missing[] = {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register};
static const int refused_without_lab[] = {
    SYS_unshare, SYS_setns,     SYS_mount,      SYS_umount2,       SYS_pivot_root,
    SYS_chroot,  SYS_open_tree, SYS_move_mount, SYS_mount_setattr,
};
/* Calls that copy a file's bytes into a program's memory, or to where it could read them. */
static const int file_reads[] = {
    SYS_read,     SYS_readv,      SYS_pread64, SYS_preadv,   SYS_preadv2,
    SYS_vmsplice, SYS_socketpair, SYS_listen,  SYS_io_setup, SYS_execveat,
};
/* The program may have sent the data of a socket to itself. It may still wait for the end of its
   connection, which it sees immediately. */
static const int socket_reads[] = {SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg};
/* Calls whose first argument is a process, which must not be the watch. */
static const int refused_of_the_watch[] = {
    SYS_prlimit64,      SYS_sched_setaffinity, SYS_sched_setscheduler,
    SYS_sched_setparam, SYS_sched_setattr,
};

static unsigned error(int number) {
    return SECCOMP_RET_ERRNO | (unsigned)number;
}

/* Answers a call depending on whether its argument passes a test. */
static void answer_argument(int call, int argument, int test, unsigned value, bool passes,
                            unsigned what) {
    filter_skip(BPF_JEQ, (unsigned)call, 0, 4);
    filter_load(offsetof(struct seccomp_data, args[argument]));
    filter_skip(test, value, !passes, passes);
    filter_answer(what);
    filter_load(offsetof(struct seccomp_data, nr));
}

static void answer_all(const int *calls, size_t count, unsigned what) {
    for (size_t i = 0; i < count; i++)
        filter_answer_if_equal((unsigned)calls[i], what);
}

static void refuse_new_namespaces(void) {
    const unsigned kinds = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                           CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    answer_all(refused_without_lab, COUNT(refused_without_lab), error(EPERM));
    /* clone3 has its flags behind a pointer; without it, libraries use clone. */
    filter_answer_if_equal(SYS_clone3, error(ENOSYS));
    answer_argument(SYS_clone, 0, BPF_JSET, kinds, true, error(EPERM));
}

/* A program that makes one of these calls ends by SIGSYS, so that it is noticed. A dynamically
   linked program would not even start. The kernel maps the file of a new program, so only COMMAND
   itself can be executed. Its name is recognised by the address, which COMMAND cannot know. */
static void end_by_file_reads(const char *command) {
    answer_all(file_reads, COUNT(file_reads), SECCOMP_RET_KILL_PROCESS);
    answer_all(socket_reads, COUNT(socket_reads), error(0));
    answer_argument(SYS_getsockopt, 2, BPF_JEQ, TCP_ZEROCOPY_RECEIVE, true,
                    SECCOMP_RET_KILL_PROCESS);
    answer_argument(SYS_execve, 0, BPF_JEQ, (unsigned)(uintptr_t)command, false,
                    SECCOMP_RET_KILL_PROCESS);
    answer_argument(SYS_mmap, 3, BPF_JSET, MAP_ANONYMOUS, false, SECCOMP_RET_KILL_PROCESS);
}

/* AF_VSOCK reaches the hypervisor, and AF_ALG and others reach rarely used kernel code. The last
   two allocate memory outside processes, for sent descriptors and for a ring of packets. */
static void refuse_odd_sockets(bool no_lab) {
    const unsigned usual[] = {AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, AF_PACKET};
    const size_t count = COUNT(usual) - (no_lab ? 2 : 0);
    if (no_lab)
        filter_answer_if_equal(SYS_socketpair, error(EAFNOSUPPORT));
    /* Skip the load, the comparisons and the answer. */
    filter_skip(BPF_JEQ, SYS_socket, 0, count + 2);
    filter_load(offsetof(struct seccomp_data, args[0]));
    for (size_t i = 0; i < count; i++)
        filter_skip(BPF_JEQ, usual[i], count - i, 0);
    filter_answer(error(EAFNOSUPPORT));
}

void refuse_system_calls(bool no_lab, const char *no_file_reads) {
    if (!THIS_ARCHITECTURE && no_file_reads)
        fail_because("--no-file-reads is not supported on this architecture");
    if (!THIS_ARCHITECTURE)
        return;
    filter_load(offsetof(struct seccomp_data, arch));
    filter_skip(BPF_JEQ, THIS_ARCHITECTURE, 1, 0);
    filter_answer(SECCOMP_RET_KILL_PROCESS); /* 32-bit calls have other numbers */
    filter_load(offsetof(struct seccomp_data, nr));
    filter_skip(BPF_JGE, 0x40000000, 0, 1);
    filter_answer(error(ENOSYS)); /* x32 */
    answer_all(refused, COUNT(refused), error(EPERM));
    answer_all(missing, COUNT(missing), error(ENOSYS));
    for (size_t i = 0; i < COUNT(refused_of_the_watch); i++)
        answer_argument(refused_of_the_watch[i], 0, BPF_JEQ, 1, true, error(EPERM));
    /* A laboratory binds files and changes propagation. Other mounts are refused, since the memory
       of a tmpfs or a ramfs is not counted. */
    const unsigned of_old_ones =
        MS_BIND | MS_MOVE | MS_SHARED | MS_PRIVATE | MS_SLAVE | MS_UNBINDABLE;
    if (no_lab)
        refuse_new_namespaces();
    else
        answer_argument(SYS_mount, 3, BPF_JSET, of_old_ones, false, error(EPERM));
    if (no_file_reads)
        end_by_file_reads(no_file_reads);
    refuse_odd_sockets(no_lab);
    filter_answer(SECCOMP_RET_ALLOW);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &seccomp_filter) < 0)
        fail("the seccomp filter");
}
