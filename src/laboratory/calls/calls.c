/*
 * calls - run an unmodified command, and record its calls on TCP sockets with their times.
 *
 *     calls [--first] [--most N] LOG -- COMMAND [ARGUMENT...]
 *
 *     --first    end when COMMAND ends; without it, when the last process that it started has ended
 *     --most N   log at most N calls, and only count the others (default 200000)
 *
 * The kernel stops a task of COMMAND at each system call that may concern a socket, and notifies us
 * (SECCOMP_RET_USER_NOTIF). We duplicate the task's socket (pidfd_getfd(2)), query the kernel about
 * it, log the call and let it continue unchanged; record.h describes the lines. So threads,
 * children, executed programs and static binaries are all recorded. Only the timing changes, by 10
 * to 20 us per call. Reads and writes of files are delayed too, since a filter cannot distinguish
 * them.
 *
 * Events that it cannot see are reported, never guessed: io_uring and 32-bit programs. It does not
 * see the calls' results either, but the next call's counts show the number of bytes. COMMAND
 * cannot gain privileges through set-user-ID programs, since the kernel lets an ordinary user watch
 * only with that promise (PR_SET_NO_NEW_PRIVS).
 *
 * Signals are forwarded to COMMAND, a second SIGTERM as SIGKILL, and its exit status becomes ours.
 * If we are killed, COMMAND is killed too (PR_SET_PDEATHSIG). Since the kernel closes our end of
 * the filter, processes that it started get ENOSYS for each watched call. So they end too, and do
 * not hang.
 *
 * Sources: seccomp_unotify(2), pidfd_getfd(2), the kernel's kernel/seccomp.c.
 */
#include "filter.h"
#include "net.h"
#include "record.h"
#include "target.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* After this time without a call, the buffer is written to the file. */
enum { FLUSH_MS = 50 };

static bool first_only;

/* ---- the command ---- */

/* Starts the command; returns its listener. The child can only pass on the descriptor's number,
   since the calls that could send more are already watched. */
static int start(char **command, pid_t *child, const sigset_t *usual) {
    int *number =
        mmap(NULL, sizeof *number, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (number == MAP_FAILED)
        fail("mmap");
    *child = fork_process();
    if (*child == 0) {
        sigprocmask(SIG_SETMASK, usual, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        *number = install_filter();
        raise(SIGSTOP); /* until the parent has the listener, which exec closes here */
        execute(command);
    }
    int status;
    if (TEMP_FAILURE_RETRY(waitpid(*child, &status, WUNTRACED)) < 0)
        fail("waitpid");
    if (!WIFSTOPPED(status))
        exit(1); /* the child has reported the reason */
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

/* This kernel's structures may be larger than ours (seccomp_unotify(2)). */
static struct seccomp_notif_sizes sizes;
static struct seccomp_notif *notice;
static struct seccomp_notif_resp *answer;

static void make_buffers(void) {
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
        fail("SECCOMP_GET_NOTIF_SIZES");
    notice = allocate(1, sizeof *notice + sizes.seccomp_notif);
    answer = allocate(1, sizeof *answer + sizes.seccomp_notif_resp);
}

/* Handles one call: examines it, lets it continue, and logs it. A call that a signal interrupts is
   notified again, and counts then. */
static void serve(int listener) {
    memset(notice, 0, sizes.seccomp_notif);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, notice) < 0)
        return; /* the task has been killed meanwhile */
    int64_t start_ns = clock_ns(CLOCK_REALTIME);
    look_at(notice, start_ns);
    memset(answer, 0, sizes.seccomp_notif_resp);
    answer->id = notice->id;
    answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    bool goes_on = ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, answer) == 0;
    write_down(goes_on, clock_ns(CLOCK_REALTIME) - start_ns);
}

/* ---- the end ---- */

static int exit_status(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
                break; /* no process is left that the signal could concern */
            bool again = asked_to_end && news.ssi_signo == SIGTERM;
            asked_to_end = asked_to_end || news.ssi_signo == SIGTERM;
            if (news.ssi_signo != SIGCHLD)
                kill(child, again ? SIGKILL : (int)news.ssi_signo);
        }
        /* Reap even without a new signal, since simultaneous signals of one kind are merged. */
        bool news_of_child = (events[0].revents & POLLHUP) || (events[1].revents & POLLIN);
        if (news_of_child && reap(child, &status)) {
            ended = true;
            log_exit(child, exit_status(status));
        }
    }
    return exit_status(status);
}

static int watch_signals(sigset_t *usual) {
    sigset_t ours;
    sigemptyset(&ours);
    const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
    for (size_t i = 0; i < COUNT(signals); i++)
        sigaddset(&ours, signals[i]);
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
    /* Adopt orphans, so that Yama lets us look at them (PR_SET_PTRACER in prctl(2)). */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t usual;
    int signals = watch_signals(&usual);
    pid_t child;
    int listener = start(argv + at + 2, &child, &usual);
    int status = record(listener, signals, child);
    close_record();
    return status;
}
