/*
 * calls - run a command as it is, and record what it does with its TCP sockets, and when.
 *
 *     calls [--first] [--most N] LOG -- COMMAND [ARGUMENT...]
 *
 *     --first    end when COMMAND ends; without it, when the last process that it started has ended
 *     --most N   log so many calls and only count the others (default 200000)
 *
 * The kernel stops a task of COMMAND at each system call that may concern a socket and tells us
 * (SECCOMP_RET_USER_NOTIF); we borrow the very socket from the task (pidfd_getfd(2)), ask the
 * kernel about it, log the call and let it go on as it was (record.h has the lines). So
 * threads, children, other programs that are executed, and static binaries are recorded alike.
 * Nothing is changed but time: some 10 to 20 us per call, also for reads and writes of files, since
 * a filter cannot tell them from sockets.
 *
 * What that cannot see is said, never guessed: the calls' results (the next call's counts tell how
 * many bytes went), what io_uring does, 32-bit programs. COMMAND cannot gain privileges by
 * set-user-ID programs: without that promise (PR_SET_NO_NEW_PRIVS) the kernel lets no ordinary
 * user watch.
 *
 * Signals sent to us reach COMMAND, whose exit status is ours; a second SIGTERM reaches it as
 * SIGKILL. When we are killed, COMMAND is (PR_SET_PDEATHSIG); what it had started meanwhile gets
 * ENOSYS for each call that we should have answered, and so ends too and hangs nowhere: the kernel
 * closes our end of the filter.
 *
 * Sources: seccomp_unotify(2), pidfd_getfd(2), the kernel's kernel/seccomp.c.
 */
#include "filter.h"
#include "net.h"
#include "record.h"
#include "target.h"

#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* After so long without a call what is in our buffer goes to the file. */
enum { FLUSH_MS = 50 };

static bool first_only;

/* ---- the command ---- */

/* In the child: the filter, then the command. The descriptor's number is all that we can hand over
   by ourselves, for the calls that could send more are already watched. */
static _Noreturn void run_command(char **command, int *listener) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    *listener = install_filter();
    raise(SIGSTOP); /* until the parent has the listener, which exec closes here */
    execute(command);
}

/* Starts the command; returns its listener. */
static int start(char **command, pid_t *child, const sigset_t *usual) {
    int *number =
        mmap(NULL, sizeof *number, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (number == MAP_FAILED)
        fail("mmap");
    *child = fork_process();
    if (*child == 0) {
        sigprocmask(SIG_SETMASK, usual, NULL);
        run_command(command, number);
    }
    int status;
    while (waitpid(*child, &status, WUNTRACED) < 0)
        if (errno != EINTR)
            fail("waitpid");
    if (!WIFSTOPPED(status))
        exit(1); /* the child has said why */
    int listener = borrow(*child, *number);
    if (listener < 0) {
        int error = errno;
        kill(*child, SIGKILL);
        errno = error;
        fail("pidfd_getfd of the filter (kernel.yama.ptrace_scope must be 0 or 1)");
    }
    munmap(number, sizeof *number);
    kill(*child, SIGCONT);
    return listener;
}

/* ---- the calls ---- */

/* Buffers of the sizes that this kernel uses (seccomp_unotify(2)). */
static struct seccomp_notif *notice;
static struct seccomp_notif_resp *answer;
static size_t notice_bytes, answer_bytes;

static void make_buffers(void) {
    struct seccomp_notif_sizes sizes;
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
        fail("SECCOMP_GET_NOTIF_SIZES");
    notice_bytes = sizes.seccomp_notif > sizeof *notice ? sizes.seccomp_notif : sizeof *notice;
    answer_bytes =
        sizes.seccomp_notif_resp > sizeof *answer ? sizes.seccomp_notif_resp : sizeof *answer;
    notice = allocate(1, notice_bytes);
    answer = allocate(1, answer_bytes);
}

/* One call: look, let it go on, write. What was interrupted by a signal is asked anew, and counts
   then. */
static void serve(int listener) {
    memset(notice, 0, notice_bytes);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, notice) < 0)
        return; /* the task has been killed meanwhile */
    int64_t start_ns = clock_ns(CLOCK_REALTIME);
    look_at(notice, start_ns);
    memset(answer, 0, answer_bytes);
    answer->id = notice->id;
    answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    bool goes_on = ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, answer) == 0;
    write_down(goes_on, clock_ns(CLOCK_REALTIME) - start_ns);
}

/* ---- the end ---- */

static int exit_status(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Reaps whoever has ended; true once the command is among them. */
static bool reap(pid_t child, int *status) {
    bool ended = false;
    int its;
    for (pid_t pid; (pid = waitpid(-1, &its, WNOHANG)) > 0;)
        if (pid == child) {
            *status = exit_status(its);
            log_exit(child, *status);
            ended = true;
        }
    return ended;
}

/* Records until the end; returns the command's exit status. */
static int record(int listener, int signals, pid_t child) {
    struct pollfd events[] = {{.fd = listener, .events = POLLIN},
                              {.fd = signals, .events = POLLIN}};
    bool ended = false, asked_to_end = false;
    int status = 0;
    /* The listener hangs up when no task has the filter any more. */
    while (!(ended && (first_only || (events[0].revents & POLLHUP)))) {
        int ready = poll(events, 2, FLUSH_MS);
        if (ready < 0 && errno != EINTR)
            fail("poll");
        if (ready == 0)
            flush_log();
        if (events[0].revents & POLLIN)
            serve(listener);
        struct signalfd_siginfo news;
        if ((events[1].revents & POLLIN) && read(signals, &news, sizeof news) == sizeof news) {
            if (news.ssi_signo != SIGCHLD && ended)
                break; /* nobody is left whose signal it could be */
            bool again = asked_to_end && news.ssi_signo == SIGTERM;
            asked_to_end = asked_to_end || news.ssi_signo == SIGTERM;
            if (news.ssi_signo != SIGCHLD)
                kill(child, again ? SIGKILL : (int)news.ssi_signo);
        }
        /* Also without news of it: signals of one kind that come together are one. */
        if ((events[0].revents & POLLHUP) || (events[1].revents & POLLIN))
            ended = reap(child, &status) || ended;
    }
    return status;
}

static int watch_signals(sigset_t *usual) {
    sigset_t ours;
    sigemptyset(&ours);
    const int some[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        sigaddset(&ours, some[i]);
    sigprocmask(SIG_BLOCK, &ours, usual);
    int fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        fail("signalfd");
    return fd;
}

int main(int argc, char **argv) {
    int64_t most = 200000;
    int at = 1;
    if (at < argc && strcmp(argv[at], "--first") == 0)
        first_only = ++at;
    if (at + 1 < argc && strcmp(argv[at], "--most") == 0) {
        most = whole_number("--most", argv[at + 1], 1, INT64_C(1) << 40);
        at += 2;
    }
    if (argc < at + 3 || strcmp(argv[at + 1], "--") != 0)
        usage_error("usage: calls [--first] [--most N] LOG -- COMMAND [ARGUMENT...]");
    open_record(argv[at], most);
    make_buffers();
    /* Orphans become our children, so that Yama lets us look at them (PR_SET_PTRACER in prctl(2)).
     */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t usual;
    int signals = watch_signals(&usual);
    pid_t child;
    int listener = start(argv + at + 2, &child, &usual);
    int status = record(listener, signals, child);
    close_record();
    return status;
}
