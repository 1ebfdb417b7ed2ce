/*
 * sandbox_run - run an untrusted command in new namespaces and with limits.
 *
 *     sandbox_run [OPTION]... -- CONTROL_FD COMMAND [ARGUMENT...]
 *
 * A submission is untrusted code. It runs in new namespaces (user, PID, mount, IPC, UTS, network;
 * see namespaces(7)), in which it sees only
 *
 *     /usr, /bin, /lib*, a few files of /etc, and each --bind PATH     read-only
 *     /given, the folder --given PATH; copied to /submission           read-only
 *     /submission (where COMMAND starts), /tmp, /dev/shm               --folder-bytes of memory
 *     /proc                                                            only its own processes
 *     a network with a loopback interface and nothing else; with --keep-network the one that
 *     sandbox_run was started in, without any right over it
 *
 * Capabilities are dropped permanently (no_new_privs(2)), and a seccomp(2) filter refuses the
 * system calls that only a kernel's developer or attacker needs. COMMAND may still make a
 * laboratory inside, which takes further namespaces; --no-lab forbids that too.
 *
 * --wall-s, --cpu-s, --memory-bytes and --processes limit all processes together, and are enforced
 * by a watch. --file-bytes and --process-bytes limit each process (setrlimit(2)). Everything ends
 * when COMMAND ends, when a limit is exceeded, or when the other end of CONTROL_FD closes, for
 * example because its owner died. That includes all forked processes, since sandbox_run's inner
 * half is process 1 of the PID namespace.
 *
 * The watch runs in process 1, with which the watched processes cannot interfere. Calls that change
 * its limits or scheduling are refused, its files in /proc belong to another user, and if it cannot
 * see a process it kills all of them. It counts threads as processes. It counts resident memory,
 * shared mappings, and two full buffers for each socket. Memory outside processes (memfd_create(2),
 * System V, a new tmpfs or ramfs) is refused, and so are more than 128 namespaces of a kind. The
 * watch sees neither the kernel's memory for the network of a laboratory that COMMAND makes, nor
 * packet rings before they are mapped (which Linux 6.18 charges to no control group, either), nor
 * TCP's other memory, which the machine's tcp_mem limits (tcp(7)). If the machine runs out of
 * memory, the sandbox is killed first (oom_score_adj in proc(5)).
 *
 * CONTROL_FD is a socket. At the end, one line of JSON is sent over it: how COMMAND ended, which
 * limit stopped it, and how many processes it left behind. sandbox_run then exits with 0. If the
 * namespaces could not be made, it exits with 1 and a line on standard error.
 *
 * If root starts it, COMMAND runs as user 65534 (nobody). The exception is --keep-network, for root
 * in a laboratory, where no other user exists.
 *
 * bubblewrap 0.8 was tried instead. It makes the same namespaces and mounts, drops the same
 * capabilities, and allows a laboratory inside. But it limits neither memory, processor time,
 * threads nor namespaces, refuses a system call only with a filter that another program compiles,
 * and reports neither what stopped COMMAND nor what was left of it. So most of this program would
 * remain, between bwrap and COMMAND, where COMMAND could reach it. Also, where Ubuntu 24.04
 * restricts user namespaces, its profile for bwrap (bwrap-userns-restrict) removes all capabilities
 * inside, so that notebooks could not make the laboratory they need.
 */
#include "command_line.h"
#include "limits.h"
#include "process.h"
#include "root.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, WATCH_MS = 20, STRAGGLER_MS = 400 };

static int control;
static int failed[2]; /* a pipe that gets a byte if COMMAND could not be started */
static bool keep_network, no_lab, no_file_reads;
static struct root root = {.folder_bytes = 256 << 20};
static struct limits limits = {
    .memory_bytes = (int64_t)2 << 30,
    .processes = 64,
    .wall_s = 120,
    .cpu_s = 60,
    .file_bytes = 64 << 20,
    .process_bytes = (int64_t)4 << 30,
};

static const struct program_option options[] = {
    {"bind", 0, "PATH", "make PATH visible, read-only", .each = add_bind},
    {"given", 0, "PATH", "make PATH visible as /given, and copy it to /submission",
     .text = &root.given},
    {"keep-network", 0, NULL, "stay in this network namespace", .flag = &keep_network},
    {"no-lab", 0, NULL, "forbid further namespaces", .flag = &no_lab},
    {"no-file-reads", 0, NULL, "end the command by SIGSYS when it reads a file",
     .flag = &no_file_reads},
    {"folder-bytes", 0, "B", "memory for writable folders", .number = &root.folder_bytes,
     .min = 1 << 20, .max = 0x1p40},
    {"memory-bytes", 0, "B", "resident memory of all processes", .number = &limits.memory_bytes,
     .min = 1 << 20, .max = 0x1p44},
    {"process-bytes", 0, "B", "address space of each process", .number = &limits.process_bytes,
     .min = 1 << 20, .max = 0x1p44},
    {"file-bytes", 0, "B", "largest size of a file", .number = &limits.file_bytes, .min = 1 << 10,
     .max = 0x1p40},
    {"processes", 0, "N", "processes at a time", .number = &limits.processes, .min = 1,
     .max = 100000},
    {"wall-s", 0, "S", "wall-clock time", .number = &limits.wall_s, .min = 1, .max = 86400},
    {"cpu-s", 0, "S", "processor time of all processes", .number = &limits.cpu_s, .min = 1,
     .max = 86400},
    {.help = NULL},
};

static const struct command command_line = {
    .usage = "sandbox_run [OPTION]... -- CONTROL_FD COMMAND [ARGUMENT...]",
    .summary = "Runs an untrusted command; reports on the socket CONTROL_FD how it ended.",
    .options = options,
    .arguments = {2, INT_MAX},
    .bare = true,
};

/* ---- the network ---- */

static void raise_loopback(void) {
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
        fail("the loopback interface");
    request.ifr_flags |= IFF_UP;
    if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        fail("raising the loopback interface");
    close(fd);
}

/* ---- the command itself ---- */

static void become_nobody(void) {
    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0)
        fail("becoming nobody");
    /* A process that has changed its user may not write its uid_map until it is dumpable again. */
    if (prctl(PR_SET_DUMPABLE, 1) < 0)
        fail("PR_SET_DUMPABLE");
    enter_user_namespace(NOBODY, NOBODY);
}

static void drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {0};
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
        if (prctl(PR_CAPBSET_DROP, capability) < 0)
            fail("dropping capability %d", capability);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &header, none) < 0)
        fail("capset");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        fail("no_new_privs");
}

static void copy_given(void) {
    pid_t child = fork_process();
    if (child == 0) {
        execl("/bin/cp", "cp", "-r", "/given/.", "/submission", (char *)NULL);
        fail("/bin/cp");
    }
    if (wait_for_child(child) != 0)
        fail_because("the submission does not fit into its folder of %lld bytes",
                     (long long)root.folder_bytes);
}

static void tell_failure(void) {
    (void)!write(failed[1], "", 1);
}

static _Noreturn void run_command(char **command, bool real_root) {
    /* Failures after this point are ours, not COMMAND's. */
    if (atexit(tell_failure) != 0)
        fail("atexit");
    if (real_root)
        become_nobody();
    set_limits(&limits);
    if (!no_lab)
        limit_namespaces();
    drop_capabilities();
    if (root.given)
        copy_given();
    refuse_system_calls(no_lab, no_file_reads ? command[0] : NULL);
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    (void)!nice(5);   /* the watch must not starve */
    close(failed[1]); /* a failure to execute it counts as COMMAND's end, though */
    execvp(command[0], command);
    fail("%s", command[0]);
}

/* ---- process 1: the watch ---- */

/* Waits for processes that are about to end, such as those of a laboratory that was just closed. */
static void wait_for_stragglers(struct watch *seen) {
    const struct timespec pause = {.tv_nsec = WATCH_MS * 1000000L};
    watch_look(seen);
    for (int i = 0; seen->processes > 0 && i < STRAGGLER_MS / WATCH_MS; i++) {
        nanosleep(&pause, NULL);
        int status;
        reap(-1, &status);
        watch_look(seen);
    }
}

static void report(int status, const char *stopped, const struct watch *seen) {
    char text[512];
    int exit_status = !stopped && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    int signal_number = !stopped && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    snprintf(
        text, sizeof text,
        "{\"exit_status\": %d, \"signal\": %d, \"stopped_by\": \"%s\", \"left_behind\": %lld}\n",
        exit_status, signal_number, stopped ? stopped : "", (long long)seen->processes);
    (void)send(control, text, strlen(text), MSG_NOSIGNAL);
}

static _Noreturn void run_init(char **command, bool real_root) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!keep_network)
        raise_loopback();
    /* If the machine runs out of memory, this is killed first, and not the grader. */
    write_file("/proc/self/oom_score_adj", "1000");
    if (sethostname("submission", 10) < 0)
        fail("sethostname");
    make_root(&root);

    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);

    struct watch seen = {.start_ns = 0};
    watch_start(&seen);
    if (pipe2(failed, O_CLOEXEC) < 0)
        fail("pipe");
    pid_t child = fork_process();
    if (child == 0)
        run_command(command, real_root);
    close(failed[1]);
    /* Protect the files in /proc/1 that its user could write. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        fail("PR_SET_DUMPABLE");
    int status = 0;
    const char *stopped = NULL;
    struct pollfd owner = {.fd = control, .events = POLLIN};
    const struct timespec pause = {.tv_nsec = WATCH_MS * 1000000L};
    while (!reap(child, &status) && !(stopped = limit_passed(&seen, &limits))) {
        sigtimedwait(&children, NULL, &pause);
        if (poll(&owner, 1, 0) > 0)
            exit(0); /* the owner is gone, and the kernel kills everything in here */
    }
    char byte;
    if (!stopped && read(failed[0], &byte, 1) == 1)
        exit(1); /* it has reported the reason */
    if (!stopped)
        wait_for_stragglers(&seen);
    report(status, stopped, &seen);
    exit(0);
}

int main(int argc, char **argv) {
    char **arguments = parse_command_line(argc, argv, &command_line), **command = arguments + 1;
    control = (int)whole_number("CONTROL_FD", arguments[0], 3, 1 << 20);
    bool real_root = geteuid() == 0 && !keep_network;
    root.uid = real_root ? NOBODY : geteuid();
    root.gid = real_root ? NOBODY : getegid();
    root.proc_read_only = keep_network;
    if (fcntl(control, F_SETFD, FD_CLOEXEC) < 0)
        fail("CONTROL_FD");
    if (!real_root)
        enter_user_namespace(root.uid, root.gid);
    int kinds = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
    if (unshare(kinds | (keep_network ? 0 : CLONE_NEWNET)) < 0)
        fail("unshare of the namespaces");

    pid_t child = fork_process();
    if (child == 0)
        run_init(command, real_root);
    close(control);
    close_standard_streams();
    int status = wait_for_child(child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
