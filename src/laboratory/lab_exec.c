/*
 * lab_exec - run a command on a host of a laboratory, for as long as the laboratory's owner lives.
 *
 *     lab_exec [--net-admin] OWNER_PID USER_FD MNT_FD PID_FD NET_FD UTS_FD -- COMMAND [ARGUMENT...]
 *     lab_exec OWNER_PID -- COMMAND [ARGUMENT...]
 *
 * It joins the namespaces of the descriptors (from lab_init), and runs COMMAND there as the same
 * ordinary user in the same working directory. It ends like COMMAND, with the same exit status or
 * signal. The second form joins no namespaces, so COMMAND runs on the real machine.
 *
 * Entering a user namespace gives all capabilities in it, and exec takes them away again, so that
 * COMMAND has no more rights than outside; with --net-admin it keeps CAP_NET_RAW and
 * CAP_NET_ADMIN over the laboratory's network (capabilities(7), "Ambient").
 *
 * Signals sent to lab_exec are forwarded to COMMAND. COMMAND leads a new process group, which is
 * killed when COMMAND exits, when OWNER_PID dies in any way, and when lab_exec is killed. The last
 * case needs a third process, the guard between the two. A program that gets SIGKILL cannot react,
 * but its child can see that it has ended (pidfd_open(2)).
 */
#include "net.h"

#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static volatile pid_t child_pid;

static void forward_signal(int signal_number) {
    if (child_pid > 0)
        kill(child_pid, signal_number);
}

static void join(const char *name, const char *text, int kind) {
    int fd = (int)whole_number(name, text, 3, 1 << 20);
    if (setns(fd, kind) < 0)
        fail("joining the laboratory's %s", name);
    close(fd);
}

/* An ambient capability survives exec; it must be permitted and inheritable first. */
static void keep_capability(int capability) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        fail("capget");
    data[0].inheritable |= 1u << capability;
    if (syscall(SYS_capset, &header, data) < 0)
        fail("capset");
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) < 0)
        fail("raising an ambient capability");
}

static void block_signals(int how) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(how, &all, NULL);
}

static _Noreturn void run_command(char **command) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    /* Shells start background jobs with these ignored, and the command would inherit that. */
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    block_signals(SIG_UNBLOCK);
    execute(command);
}

/* Ends by the signal that ended the command, or returns its exit status. */
static int exit_with_status(int status) {
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    signal(WTERMSIG(status), SIG_DFL);
    prctl(PR_SET_DUMPABLE, 0); /* the command's core dump is enough */
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

/* Call this with all signals blocked until the child's pid is known. */
static void forward_signals_to(pid_t child) {
    const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    struct sigaction action = {.sa_handler = forward_signal, .sa_flags = SA_RESTART};
    child_pid = child;
    for (size_t i = 0; i < COUNT(signals); i++)
        sigaction(signals[i], &action, NULL);
    close_standard_streams();
    block_signals(SIG_UNBLOCK);
}

/* Runs the command; kills its process group when it, its owner or lab_exec ends. */
static _Noreturn void guard(char **command, int owner, int lab_exec) {
    pid_t child = fork_process();
    if (child == 0)
        run_command(command);
    setpgid(child, child); /* in both processes, since either may be first */
    struct pollfd ends[] = {{.fd = open_process(child, "the command"), .events = POLLIN},
                            {.fd = owner, .events = POLLIN},
                            {.fd = lab_exec, .events = POLLIN}};
    forward_signals_to(child);
    (void)TEMP_FAILURE_RETRY(poll(ends, 3, -1));
    kill(-child, SIGKILL); /* before the wait, while the group's number cannot be reused */
    _exit(exit_with_status(wait_for_child(child)));
}

/* Joining a mount namespace changes to its root, so return to the caller's directory. */
static void join_all(char **fds) {
    char directory[PATH_MAX];
    if (!getcwd(directory, sizeof directory))
        fail("the working directory");
    join("user namespace", fds[0], CLONE_NEWUSER);
    join("mount namespace", fds[1], CLONE_NEWNS);
    join("PID namespace", fds[2], CLONE_NEWPID);
    join("network namespace", fds[3], CLONE_NEWNET);
    join("UTS namespace", fds[4], CLONE_NEWUTS);
    if (chdir(directory) < 0)
        fail("returning to %s", directory);
}

int main(int argc, char **argv) {
    bool net_admin = argc > 1 && strcmp(argv[1], "--net-admin") == 0;
    char **args = argv + 1 + net_admin;
    int count = argc - 1 - net_admin;
    bool outside = count >= 3 && strcmp(args[1], "--") == 0;
    if (!outside && (count < 8 || strcmp(args[6], "--") != 0))
        usage_error("usage: lab_exec [--net-admin] OWNER_PID [USER_FD MNT_FD PID_FD NET_FD UTS_FD]"
                    " -- COMMAND [ARGUMENT...]");
    int owner = open_process((pid_t)whole_number("OWNER_PID", args[0], 1, 1 << 22), "the owner");
    int ourselves = open_process(getpid(), "lab_exec");
    char **command = args + (outside ? 2 : 7);

    if (!outside)
        join_all(args + 1);
    if (net_admin && !outside) {
        keep_capability(CAP_NET_RAW);
        keep_capability(CAP_NET_ADMIN);
    }

    /* Only the children of the process that joined a PID namespace are in it. */
    block_signals(SIG_BLOCK);
    pid_t child = fork_process();
    if (child == 0)
        guard(command, owner, ourselves);
    forward_signals_to(child);
    /* Do not call exit(). There is nothing to flush, and a sanitizer needs a new task at exit,
       which a PID namespace that has ended always refuses. */
    _exit(exit_with_status(wait_for_child(child)));
}
