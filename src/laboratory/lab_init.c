/*
 * lab_init - process 1 of a laboratory: makes the namespaces, and opens sockets and files in them.
 *
 *     lab_init CONTROL_FD OWNER_PID
 *
 * An ordinary user may not create network interfaces, but may create a user namespace with all
 * rights inside it (user_namespaces(7)). lab_init does so once, then serves its owner, the Python
 * process that started it, over a SOCK_SEQPACKET socket. It makes no decisions. The owner
 * configures addresses, links and settings through the sockets and files that lab_init opens
 * *inside* a host's namespaces.
 *
 *     request                      answer "ok" carries
 *     host NAME                    two descriptors: its network and its UTS namespace
 *     socket HOST FAMILY TYPE PROTO  one descriptor: socket(2) called on that host
 *     open HOST FLAGS PATH         one descriptor: open(2) called on that host (for /proc/sys/net)
 *     hosts TEXT                   none: TEXT becomes /etc/hosts inside the laboratory
 *
 * HOST is numbered from 0 in the order of creation. The answer to a failed request is
 * "error ENAME what". The first message, without a request, carries the user, PID and mount
 * namespaces.
 *
 * The kernel kills everything in the PID namespace when process 1 ends. Process 1 ends when its
 * owner closes the socket or dies in any way, even by SIGKILL.
 */
#include "net.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { MAX_HOSTS = 256, MAX_REQUEST = 64 * 1024, MAX_FDS = 3 };

static int control;
static int hosts[MAX_HOSTS]; /* the network namespace of each host */
static int host_count;

/* ---- answers ---- */

static void send_message(const char *text, const int *fds, int count) {
    struct iovec part = {.iov_base = (void *)text, .iov_len = strlen(text)};
    union {
        char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
        struct cmsghdr align;
    } space = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = space.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
    }
    /* If the owner is gone, the next poll detects it. */
    (void)sendmsg(control, &message, MSG_NOSIGNAL);
}

static void answer_error(const char *what) {
    char text[512];
    const char *name = strerrorname_np(errno);
    snprintf(text, sizeof text, "error %s %s", name ? name : "unknown", what);
    send_message(text, NULL, 0);
}

/* Passes a descriptor to the owner and closes our copy. */
static void answer_with(int fd, const char *what) {
    if (fd < 0) {
        answer_error(what);
        return;
    }
    send_message("ok", &fd, 1);
    close(fd);
}

/* ---- requests ---- */

static int own_namespace(const char *kind) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void make_host(const char *name) {
    if (host_count == MAX_HOSTS) {
        errno = ENOSPC;
        answer_error("a laboratory has at most 256 hosts");
        return;
    }
    if (unshare(CLONE_NEWNET | CLONE_NEWUTS) < 0 || sethostname(name, strlen(name)) < 0) {
        answer_error("unshare of the network and UTS namespaces");
        return;
    }
    int fds[] = {own_namespace("net"), own_namespace("uts")};
    if (fds[0] < 0 || fds[1] < 0) {
        answer_error("opening the new host's namespaces");
        return;
    }
    hosts[host_count++] = fds[0];
    send_message("ok", fds, 2);
    close(fds[1]);
}

/* Returns false and sends an error if there is no such host. */
static bool enter(int host) {
    errno = EINVAL;
    bool entered = host >= 0 && host < host_count && setns(hosts[host], CLONE_NEWNET) == 0;
    if (!entered)
        answer_error("entering the host's network namespace");
    return entered;
}

/* Makes the laboratory's /etc/hosts, so that "client" and "server" can be used as names. It is an
   unlinked file that is bound to the path. (A sandbox counts memory, so it refuses a tmpfs.) */
static void set_hosts(const char *text) {
    char path[] = "/tmp/tcplab-hosts-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        answer_error("making a file in /tmp");
        return;
    }
    bool written = fchmod(fd, 0644) == 0 && write_all(fd, text, strlen(text));
    close(fd);
    bool bound = written && mount(path, "/etc/hosts", NULL, MS_BIND, NULL) == 0;
    if (bound)
        send_message("ok", NULL, 0);
    else
        answer_error("binding /etc/hosts");
    unlink(path);
}

static void serve(char *request) {
    int host, a, b, c, at = 0;
    if (strncmp(request, "host ", 5) == 0)
        make_host(request + 5);
    else if (sscanf(request, "socket %d %d %d %d", &host, &a, &b, &c) == 4) {
        if (enter(host))
            answer_with(socket(a, b | SOCK_CLOEXEC, c), "socket");
    } else if (sscanf(request, "open %d %d %n", &host, &a, &at) == 2 && at > 0) {
        if (enter(host))
            answer_with(open(request + at, a | O_CLOEXEC), request + at);
    } else if (strncmp(request, "hosts ", 6) == 0)
        set_hosts(request + 6);
    else {
        errno = EINVAL;
        answer_error("no such request");
    }
}

/* ---- process 1 ---- */

static void mount_own_proc(void) {
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        fail("making the mounts private");
    /* Containers that hide parts of /proc forbid a new mount, so the old one remains. `ps` then
       shows processes outside, but they cannot be reached. */
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 &&
        errno != EPERM)
        fail("mounting /proc");
}

static _Noreturn void run_init(int owner) {
    static char request[MAX_REQUEST + 1];
    signal(SIGCHLD, SIG_IGN); /* the kernel reaps orphans */
    mount_own_proc();
    int fds[] = {own_namespace("user"), own_namespace("pid"), own_namespace("mnt")};
    send_message("ready", fds, 3);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    for (;;) {
        struct pollfd events[] = {{.fd = control, .events = POLLIN},
                                  {.fd = owner, .events = POLLIN}};
        if (poll(events, 2, -1) < 0 && errno != EINTR)
            fail("poll");
        if (events[1].revents)
            exit(0); /* the owner died */
        if (!events[0].revents)
            continue;
        ssize_t length = recv(control, request, MAX_REQUEST, 0);
        if (length <= 0)
            exit(0); /* the owner closed the laboratory */
        request[length] = '\0';
        serve(request);
    }
}

int main(int argc, char **argv) {
    if (argc != 3)
        usage_error("usage: lab_init CONTROL_FD OWNER_PID");
    control = (int)whole_number("CONTROL_FD", argv[1], 3, 1 << 20);
    pid_t owner_pid = (pid_t)whole_number("OWNER_PID", argv[2], 1, 1 << 22);
    if (fcntl(control, F_SETFD, FD_CLOEXEC) < 0)
        fail("the control socket");

    /* Open it before the check, so that a recycled process id is not mistaken for the owner. */
    int owner = open_process(owner_pid, "the owner");
    if (getppid() != owner_pid)
        exit(0);

    enter_user_namespace(geteuid(), getegid());
    if (unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC) < 0)
        fail("unshare(CLONE_NEWPID | CLONE_NEWNS)");

    pid_t child = fork_process();
    if (child == 0) {
        /* Killing this program's outer half must end the laboratory too. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_init(owner);
    }
    close(control);
    int status = wait_for_child(child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
