/* process.c - see process.h. */
#include "process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- starting ---- */

static int no_input;

/* Uses dup2(), one of the few calls that a signal handler may make (signal-safety(7)). */
static void end_input(int signal_number) {
    (void)signal_number;
    dup2(no_input, STDIN_FILENO);
}

void end_input_on_signals(void) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = end_input, .sa_flags = SA_RESTART};
    no_input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (no_input < 0)
        fail("/dev/null");
    for (size_t i = 0; i < COUNT(ends); i++)
        sigaction(ends[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

void prepare_process(void) {
    signal(SIGPIPE, SIG_IGN);
    /* Open closed standard streams. Otherwise a socket could be number 1 and get the result. */
    for (int fd = 0; fd <= 2; fd++) {
        bool closed = fcntl(fd, F_GETFD) < 0;
        if (closed && open("/dev/null", O_RDWR) != fd)
            fail("/dev/null");
        if (closed && fd == STDOUT_FILENO)
            fail_because("standard output is closed, so the result has nowhere to go");
    }
}

/* ---- failing ---- */

static const char *error_name(int error) {
    const char *name = strerrorname_np(error);
    return name ? name : "unknown error";
}

void exit_with_message(int status, int error, const char *format, ...) {
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    va_list args;
    /* Let only the first failing thread report, since two calls of exit() are undefined. */
    while (atomic_flag_test_and_set(&taken))
        pause();
    fflush(stdout);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    if (error)
        fprintf(stderr, ": %s: %s", error_name(error), strerror(error));
    fputs(status == 2 ? " (try --help)\n" : "\n", stderr);
    exit(status);
}

/* ---- memory ---- */

void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory)
        fail("%zu x %zu bytes of memory", count, size);
    return memory;
}

void *allocate_pages(size_t bytes) {
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        fail("%zu bytes of memory", bytes);
    return pages;
}

/* ---- children ---- */

void execute(char **command) {
    execvp(command[0], command);
    int error = errno;
    fprintf(stderr, "%s: %s: %s\n", command[0], error_name(error), strerror(error));
    _exit(error == ENOENT ? 127 : 126);
}

pid_t fork_process(void) {
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    return child;
}

int open_process(pid_t pid, const char *who) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        fail("pidfd_open of %s", who);
    return fd;
}

int wait_for_child(pid_t child) {
    int status;
    if (TEMP_FAILURE_RETRY(waitpid(child, &status, 0)) < 0)
        fail("waitpid");
    return status;
}

bool reap(pid_t child, int *status) {
    bool found = false;
    int status_of_any;
    for (pid_t pid; (pid = waitpid(-1, &status_of_any, WNOHANG)) > 0;)
        if (pid == child) {
            *status = status_of_any;
            found = true;
        }
    return found;
}

void close_standard_streams(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
}

void enter_user_namespace(uid_t uid, gid_t gid) {
    char map[64];
    if (unshare(CLONE_NEWUSER) < 0)
        fail("unshare(CLONE_NEWUSER)");
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", uid, uid);
    write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%u %u 1", gid, gid);
    write_file("/proc/self/gid_map", map);
}

/* ---- files ---- */

bool write_all(int fd, const void *bytes, size_t length) {
    for (const char *at = bytes, *end = at + length; at < end;) {
        ssize_t written = write(fd, at, (size_t)(end - at));
        if (written < 0 && errno != EINTR)
            return false;
        at += written < 0 ? 0 : written;
    }
    return true;
}

void write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        fail("writing %s", path);
    close(fd);
}

/* ---- clocks ---- */

int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void sleep_until_ns(int64_t monotonic_ns) {
    struct timespec when = {monotonic_ns / 1000000000, monotonic_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
        continue;
}

/* ---- ending ---- */

void finish_output(FILE *out) {
    if (fflush(out) == EOF || ferror(out))
        fail("writing the result");
}
