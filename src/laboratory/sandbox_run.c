/*
 * sandbox_run - run a command that nobody vouches for, and let nothing of it get out or stay.
 *
 *     sandbox_run CONTROL_FD [OPTION=VALUE]... [--keep-network] [--no-lab] -- COMMAND [ARGUMENT...]
 *
 * A submission is a program by a stranger. It gets a small world of its own, made of namespaces
 * (user, PID, mount, IPC, UTS, network: namespaces(7)):
 *
 *     /usr, /bin, /lib*, a few files of /etc, and each --bind=PATH     read-only
 *     /given, the folder --given=PATH; copied to /submission           read-only
 *     /submission (where COMMAND starts), /tmp, /dev/shm               --folder-bytes of memory
 *     /proc                                                            of its own processes only
 *     a network with a loopback interface and nothing else; with --keep-network the one that
 *     sandbox_run was started in, without any right over it
 *
 * Nothing else of the machine is there to be found. Capabilities are gone for good
 * (no_new_privs(2)), and a seccomp(2) filter refuses the system calls that only a kernel's
 * developer or attacker needs. Within it COMMAND may still make a laboratory, which takes further
 * namespaces; --no-lab forbids that too.
 *
 * Limits: --wall-s, --cpu-s, --memory-bytes and --processes are of all processes together, and
 * watched; --file-bytes and --process-bytes are of each process (setrlimit(2)). When COMMAND ends,
 * when a limit is passed, when the other end of CONTROL_FD closes (its owner died, say), everything
 * ends, whatever it forked: sandbox_run's inner half is process 1 of the PID namespace.
 *
 * CONTROL_FD is a socket. At the end one line of JSON comes out of it: how COMMAND ended, which
 * limit stopped it, and how many processes it left behind. sandbox_run exits with 0 then, and with
 * 1 and a line on standard error when the world could not be made.
 *
 * Started by root, COMMAND becomes the user 65534 (nobody), unless --keep-network says that root is
 * merely root of a laboratory, where there is nobody else to become.
 *
 * Why this and not bubblewrap, which was tried (0.8, as an ordinary user, alone and on a host of a
 * laboratory): bwrap makes the same namespaces and mounts, drops the same capabilities, and a
 * laboratory can be made in it. But it limits neither memory, processor time, processes nor threads
 * (3000 threads and 1 GB passed); it refuses a system call only by a filter that somebody else
 * compiles (bpf, ptrace, perf_event_open and AF_VSOCK passed); and it does not report what stopped
 * COMMAND or what was left of it. The filter, the limits, the watch and the report, which are most
 * of this file, would stay, as a second program between bwrap and COMMAND. And where Ubuntu 24.04
 * restricts user namespaces, its profile for bwrap (bwrap-userns-restrict) takes all capabilities
 * from what runs in it, so that no laboratory can be made there, which notebooks need. So bwrap
 * would be one more thing to install, for fewer lines in the part that is easiest to check.
 */
#define _GNU_SOURCE
#include "net.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_BINDS = 64, NOBODY = 65534, WATCH_MS = 20, STRAGGLER_MS = 400 };

/* Of the mount API since Linux 5.2; glibc declares them only since 2.36. */
enum { TREE_CLONE = 1, TREE_RECURSIVE = 0x8000, MOVE_FROM_FD = 4, EMPTY_PATH = 0x1000 };
enum { READ_ONLY = 1, NO_SUID = 2, NO_DEVICES = 4 };

#if defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__riscv)
#define THIS_ARCHITECTURE AUDIT_ARCH_RISCV64
#elif defined(__powerpc64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define THIS_ARCHITECTURE AUDIT_ARCH_PPC64LE
#elif defined(__s390x__)
#define THIS_ARCHITECTURE AUDIT_ARCH_S390X
#endif

static int control;
static bool keep_network, no_lab;
static const char *given;
static int64_t folder_bytes = 256 << 20, memory_bytes = (int64_t)2 << 30, processes = 64;
static int64_t wall_s = 120, cpu_s = 60, file_bytes = 64 << 20, process_bytes = (int64_t)4 << 30;

/* What will be seen in the new root: a detached copy of a mount, and where it goes. */
static struct {
    const char *path;
    int tree;
    bool is_directory;
} binds[MAX_BINDS];
static int bind_count;

/* ---- the command line ---- */

static void add_bind(const char *path);

static const struct {
    const char *name;
    int64_t *value, min, max;
} numbers[] = {
    {"--folder-bytes", &folder_bytes, 1 << 20, (int64_t)1 << 40},
    {"--memory-bytes", &memory_bytes, 1 << 20, (int64_t)1 << 44},
    {"--process-bytes", &process_bytes, 1 << 20, (int64_t)1 << 44},
    {"--file-bytes", &file_bytes, 1 << 10, (int64_t)1 << 40},
    {"--processes", &processes, 1, 100000},
    {"--wall-s", &wall_s, 1, 86400},
    {"--cpu-s", &cpu_s, 1, 86400},
};

static void take_option(const char *option) {
    const char *value = strchr(option, '=');
    size_t length = value ? (size_t)(value - option) : strlen(option);
    if (strcmp(option, "--keep-network") == 0)
        keep_network = true;
    else if (strcmp(option, "--no-lab") == 0)
        no_lab = true;
    else if (value && strncmp(option, "--given", length) == 0)
        given = value + 1;
    else if (value && strncmp(option, "--bind", length) == 0)
        add_bind(value + 1);
    else {
        for (size_t i = 0; value && i < sizeof numbers / sizeof *numbers; i++)
            if (strlen(numbers[i].name) == length &&
                strncmp(option, numbers[i].name, length) == 0) {
                *numbers[i].value = whole_number(option, value + 1, numbers[i].min, numbers[i].max);
                return;
            }
        usage_error("no such option: %s", option);
    }
}

static char **take_command_line(int argc, char **argv) {
    int i = 2;
    if (argc < 2)
        usage_error("usage: sandbox_run CONTROL_FD [OPTION=VALUE]... -- COMMAND [ARGUMENT...]");
    control = (int)whole_number("CONTROL_FD", argv[1], 3, 1 << 20);
    for (; i < argc && strcmp(argv[i], "--") != 0; i++)
        take_option(argv[i]);
    if (i + 1 >= argc)
        usage_error("no COMMAND after --");
    return argv + i + 1;
}

/* ---- the root directory ---- */

static void add_bind(const char *path) {
    if (bind_count == MAX_BINDS)
        usage_error("more than %d paths to bind", MAX_BINDS);
    binds[bind_count++].path = path;
}

/* Of the system, what compilers and interpreters need; what is a link stays one. */
static const char *const system_paths[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32"};
static const char *const etc_paths[] = {
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/localtime",    "/etc/fonts",       "/etc/protocols",  "/etc/services",
};
static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                      "/dev/urandom"};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool is_link(const char *path) {
    struct stat about;
    return lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
}

static void add_system_binds(void) {
    for (size_t i = 0; i < COUNT(system_paths); i++)
        if (access(system_paths[i], F_OK) == 0 && !is_link(system_paths[i]))
            add_bind(system_paths[i]);
    for (size_t i = 0; i < COUNT(etc_paths); i++)
        if (access(etc_paths[i], F_OK) == 0)
            add_bind(etc_paths[i]);
    for (size_t i = 0; i < COUNT(devices); i++)
        add_bind(devices[i]);
}

static bool is_device(const char *path) {
    return strncmp(path, "/dev/", 5) == 0;
}

/* Copies of the mounts, taken before the old root is covered, and made read-only with all that is
   mounted below them. */
static int clone_tree(const char *path) {
    struct {
        uint64_t set, clear, propagation, user;
    } attributes = {.set = READ_ONLY | NO_SUID | (is_device(path) ? 0 : NO_DEVICES)};
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, TREE_CLONE | TREE_RECURSIVE | O_CLOEXEC);
    if (tree < 0)
        fail("open_tree of %s", path);
    if (syscall(SYS_mount_setattr, tree, "", EMPTY_PATH | TREE_RECURSIVE, &attributes,
                sizeof attributes) < 0)
        fail("mount_setattr of %s (it needs Linux 5.12)", path);
    return tree;
}

static void clone_trees(void) {
    struct stat about;
    for (int i = 0; i < bind_count; i++) {
        binds[i].tree = clone_tree(binds[i].path);
        binds[i].is_directory = fstat(binds[i].tree, &about) == 0 && S_ISDIR(about.st_mode);
    }
}

/* mkdir -p of what stands above the last slash, under /mnt. */
static void make_parents(char *path) {
    for (char *slash = strchr(path + 5, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            fail("mkdir %s", path);
        *slash = '/';
    }
}

static void attach(int tree, const char *place, bool is_directory) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/mnt%s", place);
    make_parents(path);
    if (is_directory) {
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            fail("mkdir %s", path);
    } else {
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        /* A path below another that is bound is there already. */
        if (fd < 0 && errno != EROFS && errno != EEXIST)
            fail("creating %s", path);
        if (fd >= 0)
            close(fd);
    }
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_FROM_FD) < 0)
        fail("move_mount to %s", place);
    close(tree);
}

static void write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        fail("writing %s", path);
    close(fd);
}

/* The names of the machine's users are none of its business; programs want some all the same. */
static void write_etc(uid_t uid, gid_t gid) {
    char text[256];
    snprintf(text, sizeof text, "learner:x:%u:%u:learner:/submission:/bin/sh\n", uid, gid);
    write_file("/mnt/etc/passwd", text);
    snprintf(text, sizeof text, "learner:x:%u:\n", gid);
    write_file("/mnt/etc/group", text);
    write_file("/mnt/etc/hosts", "127.0.0.1 localhost\n10.0.0.1 client\n10.0.0.2 server\n");
    write_file("/mnt/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n");
}

static void bind_writable(const char *folder, const char *place, uid_t uid, gid_t gid) {
    char from[64], to[64];
    snprintf(from, sizeof from, "/mnt/writable/%s", folder);
    snprintf(to, sizeof to, "/mnt%s", place);
    if (mkdir(from, 0755) < 0 || (mkdir(to, 0755) < 0 && errno != EEXIST))
        fail("mkdir %s", to);
    if (chown(from, uid, gid) < 0)
        fail("chown of %s", place);
    if (mount(from, to, NULL, MS_BIND, NULL) < 0)
        fail("binding %s", place);
}

/* One tmpfs for all that it may write, so that one limit holds for all. */
static void make_writable_places(uid_t uid, gid_t gid) {
    char options[64];
    snprintf(options, sizeof options, "size=%lld,nr_inodes=20000,mode=755",
             (long long)folder_bytes);
    if (mkdir("/mnt/writable", 0700) < 0 ||
        mount("tmpfs", "/mnt/writable", "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
        fail("mounting the submission's folder");
    bind_writable("submission", "/submission", uid, gid);
    bind_writable("tmp", "/tmp", uid, gid);
    bind_writable("shm", "/dev/shm", uid, gid);
    umount2("/mnt/writable", MNT_DETACH);
    rmdir("/mnt/writable");
}

/* Where the kernel lets root write without asking for a capability, read-only is the guard: in a
   laboratory that root made, COMMAND is root. */
static void mount_proc(void) {
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | (keep_network ? MS_RDONLY : 0);
    if (mkdir("/mnt/proc", 0555) < 0 || mount("proc", "/mnt/proc", "proc", flags, NULL) < 0)
        fail("mounting /proc (a container must be started with --security-opt "
             "systempaths=unconfined)");
}

static void enter_new_root(void) {
    if (mount(NULL, "/mnt", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) <
        0)
        fail("making the root directory read-only");
    if (chdir("/mnt") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
        fail("pivot_root");
    if (chdir("/submission") < 0)
        fail("/submission");
}

static void make_root(uid_t uid, gid_t gid) {
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        fail("making the mounts private");
    add_system_binds();
    clone_trees();
    int given_tree = given ? clone_tree(given) : -1;
    if (mount("tmpfs", "/mnt", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755") < 0)
        fail("mounting a tmpfs on /mnt");
    for (size_t i = 0; i < COUNT(system_paths); i++) {
        char target[PATH_MAX] = "", path[64];
        snprintf(path, sizeof path, "/mnt%s", system_paths[i]);
        if (readlink(system_paths[i], target, sizeof target - 1) > 0 && symlink(target, path) < 0)
            fail("symlink %s", path);
    }
    /* lab_init wants a /mnt, too. */
    if (mkdir("/mnt/dev", 0755) < 0 || mkdir("/mnt/mnt", 0755) < 0)
        fail("mkdir /mnt/dev");
    /* Before the binds: Python may be installed somewhere under /tmp. */
    make_writable_places(uid, gid);
    for (int i = 0; i < bind_count; i++)
        attach(binds[i].tree, binds[i].path, binds[i].is_directory);
    if (given)
        attach(given_tree, "/given", true);
    write_etc(uid, gid);
    mount_proc();
    if (symlink("/proc/self/fd", "/mnt/dev/fd") < 0)
        fail("symlink /dev/fd");
    enter_new_root();
}

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

/* ---- system calls that are refused ---- */

static const int refused_always[] = {
    SYS_kexec_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_open_by_handle_at,
    SYS_swapon,
    SYS_swapoff,
    SYS_reboot,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_acct,
    SYS_quotactl,
    SYS_syslog,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
};
static const int refused_without_lab[] = {
    SYS_unshare, SYS_setns,     SYS_mount,         SYS_umount2, SYS_pivot_root,
    SYS_chroot,  SYS_open_tree, SYS_move_mount,    SYS_fsopen,  SYS_fsconfig,
    SYS_fsmount, SYS_fspick,    SYS_mount_setattr,
};

/* A seccomp filter is a program for a small machine that sees the call's number and arguments. */
static struct sock_filter code[256];
static unsigned short code_length;

static void emit(struct sock_filter instruction) {
    code[code_length++] = instruction;
}

static void load(size_t offset) {
    emit((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

static void answer(unsigned what) {
    emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

static void answer_if_equal(unsigned value, unsigned what) {
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    answer(what);
}

static unsigned error(int number) {
    return SECCOMP_RET_ERRNO | (unsigned)number;
}

static void refuse_new_namespaces(void) {
    const unsigned kinds = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                           CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    for (size_t i = 0; i < COUNT(refused_without_lab); i++)
        answer_if_equal((unsigned)refused_without_lab[i], error(EPERM));
    /* clone3 hides its flags behind a pointer; without it libraries use clone. */
    answer_if_equal(SYS_clone3, error(ENOSYS));
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3));
    load(offsetof(struct seccomp_data, args[0]));
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kinds, 0, 1));
    answer(error(EPERM));
    load(offsetof(struct seccomp_data, nr));
}

/* AF_VSOCK leads to the hypervisor, AF_ALG and others into seldom used kernel code. */
static void refuse_odd_sockets(void) {
    const unsigned usual[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET};
    const unsigned char after = COUNT(usual) + 2; /* the comparisons, a load, the answer */
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, after));
    load(offsetof(struct seccomp_data, args[0]));
    for (size_t i = 0; i < COUNT(usual); i++)
        emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, usual[i],
                                          (unsigned char)(COUNT(usual) - i), 0));
    answer(error(EAFNOSUPPORT));
}

static void refuse_system_calls(void) {
#ifdef THIS_ARCHITECTURE
    load(offsetof(struct seccomp_data, arch));
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 1, 0));
    answer(SECCOMP_RET_KILL_PROCESS); /* 32-bit calls have other numbers */
    load(offsetof(struct seccomp_data, nr));
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));
    answer(error(ENOSYS)); /* x32 */
    for (size_t i = 0; i < COUNT(refused_always); i++)
        answer_if_equal((unsigned)refused_always[i], error(EPERM));
    if (no_lab)
        refuse_new_namespaces();
    refuse_odd_sockets();
    answer(SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = code_length, .filter = code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        fail("the seccomp filter");
#endif
}

/* ---- the command itself ---- */

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

static void set_limits(void) {
    limit(RLIMIT_CPU, cpu_s + 1, "RLIMIT_CPU"); /* should the watch starve */
    limit(RLIMIT_AS, process_bytes, "RLIMIT_AS");
    limit(RLIMIT_FSIZE, file_bytes, "RLIMIT_FSIZE");
    limit(RLIMIT_NOFILE, 1024, "RLIMIT_NOFILE");
    limit(RLIMIT_CORE, 0, "RLIMIT_CORE");
    limit(RLIMIT_MSGQUEUE, 65536, "RLIMIT_MSGQUEUE");
    /* Counted in the user namespace that was just made (Linux 5.14), so only what is in here. Root
       is exempt; for root, and for older kernels, there is the watch, which the surplus is for. */
    limit(RLIMIT_NPROC, processes + 8, "RLIMIT_NPROC");
}

static void map_self_into(uid_t uid, gid_t gid) {
    char map[64];
    if (unshare(CLONE_NEWUSER) < 0)
        fail("unshare(CLONE_NEWUSER)");
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", uid, uid);
    write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%u %u 1", gid, gid);
    write_file("/proc/self/gid_map", map);
}

static void become_nobody(void) {
    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0)
        fail("becoming nobody");
    /* A process that changed its user may not write its own uid_map until it is dumpable again. */
    if (prctl(PR_SET_DUMPABLE, 1) < 0)
        fail("PR_SET_DUMPABLE");
    map_self_into(NOBODY, NOBODY);
}

static void drop_capabilities(void) {
    struct {
        uint32_t version;
        int pid;
    } header = {.version = 0x20080522};
    struct {
        uint32_t effective, permitted, inheritable;
    } none[2] = {0};
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
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/cp", "cp", "-r", "/given/.", "/submission", (char *)NULL);
        fail("/bin/cp");
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
        fail_because("the submission does not fit into its folder of %lld bytes",
                     (long long)folder_bytes);
}

static _Noreturn void be_command(char **command, bool real_root) {
    if (real_root)
        become_nobody();
    set_limits();
    drop_capabilities();
    if (given)
        copy_given();
    refuse_system_calls();
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    if (nice(5) < 0) /* the watch must not starve */
        errno = 0;
    execvp(command[0], command);
    fail("%s", command[0]);
}

/* ---- process 1: the watch ---- */

static struct {
    int64_t bytes, processes, cpu_ms, peak_bytes, peak_processes;
} seen;

/* The text of /proc/PID/NAME from the place after the last ')' on, which ends the process's name.
 */
static bool read_numbers(const char *pid, const char *name, char *text, size_t size) {
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    char *name_end = strrchr(text, ')');
    if (name_end)
        memmove(text, name_end + 1, strlen(name_end + 1) + 1);
    return length > 0;
}

/* What a process has resident, and the time that it and its children before it used: proc(5). */
static void add_process(const char *pid) {
    char text[1024];
    long long pages, ticks[4];
    seen.processes++;
    if (read_numbers(pid, "statm", text, sizeof text) && sscanf(text, "%*d %lld", &pages) == 1)
        seen.bytes += pages * sysconf(_SC_PAGESIZE);
    if (read_numbers(pid, "stat", text, sizeof text) &&
        sscanf(text, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %lld %lld", &ticks[0],
               &ticks[1], &ticks[2], &ticks[3]) == 4)
        seen.cpu_ms += (ticks[0] + ticks[1] + ticks[2] + ticks[3]) * 1000 / sysconf(_SC_CLK_TCK);
}

static int64_t reaped_cpu_ms(void) {
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

/* Every process that is not process 1. Shared pages count as often as they are shared. */
static void look(void) {
    DIR *proc = opendir("/proc");
    if (!proc)
        return;
    seen.bytes = seen.processes = 0;
    seen.cpu_ms = reaped_cpu_ms();
    for (struct dirent *entry; (entry = readdir(proc));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && strcmp(entry->d_name, "1") != 0)
            add_process(entry->d_name);
    closedir(proc);
    if (seen.bytes > seen.peak_bytes)
        seen.peak_bytes = seen.bytes;
    if (seen.processes > seen.peak_processes)
        seen.peak_processes = seen.processes;
}

static const char *limit_passed(int64_t start_ns) {
    look();
    if (seen.processes > processes)
        return "processes";
    if (seen.bytes > memory_bytes)
        return "memory";
    if (seen.cpu_ms > cpu_s * 1000)
        return "cpu";
    if (clock_ns(CLOCK_MONOTONIC) - start_ns > wall_s * 1000000000)
        return "wall";
    return NULL;
}

static void note_child(int signal_number) {
    (void)signal_number;
}

/* Reaps whoever ended; true when the command did. */
static bool reap(pid_t command, int *status) {
    int each;
    for (pid_t pid; (pid = waitpid(-1, &each, WNOHANG)) > 0;)
        if (pid == command) {
            *status = each;
            return true;
        }
    return false;
}

/* What is merely about to end, as a laboratory is that was just closed, was not left behind. */
static void wait_for_stragglers(void) {
    const struct timespec pause = {.tv_nsec = WATCH_MS * 1000000L};
    look();
    for (int i = 0; seen.processes > 0 && i < STRAGGLER_MS / WATCH_MS; i++) {
        nanosleep(&pause, NULL);
        int status;
        reap(-1, &status);
        look();
    }
}

static void report(int status, const char *stopped, int64_t start_ns) {
    char text[512];
    int exit_status = !stopped && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    int signal_number = !stopped && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    snprintf(text, sizeof text,
             "{\"exit_status\": %d, \"signal\": %d, \"stopped_by\": \"%s\", \"left_behind\": %lld,"
             " \"wall_ms\": %lld, \"cpu_ms\": %lld, \"peak_bytes\": %lld, \"peak_processes\":"
             " %lld}\n",
             exit_status, signal_number, stopped ? stopped : "", (long long)seen.processes,
             (long long)((clock_ns(CLOCK_MONOTONIC) - start_ns) / 1000000), (long long)seen.cpu_ms,
             (long long)seen.peak_bytes, (long long)seen.peak_processes);
    (void)send(control, text, strlen(text), MSG_NOSIGNAL);
}

static _Noreturn void be_process_one(char **command, uid_t uid, gid_t gid, bool real_root) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!keep_network)
        raise_loopback();
    if (sethostname("submission", 10) < 0)
        fail("sethostname");
    make_root(real_root ? NOBODY : uid, real_root ? NOBODY : gid);

    sigset_t children, none;
    sigemptyset(&none);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    struct sigaction action = {.sa_handler = note_child};
    sigaction(SIGCHLD, &action, NULL);

    int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0)
        be_command(command, real_root);
    int status = 0;
    const char *stopped = NULL;
    struct pollfd owner = {.fd = control, .events = POLLIN};
    const struct timespec pause = {.tv_nsec = WATCH_MS * 1000000L};
    while (!reap(child, &status) && !(stopped = limit_passed(start_ns))) {
        if (ppoll(&owner, 1, &pause, &none) > 0)
            exit(0); /* the owner has gone, and so does everything in here */
    }
    if (!stopped)
        wait_for_stragglers();
    report(status, stopped, start_ns);
    exit(0);
}

/* Standard streams belong to the command: a copy here would hide that it closed its own. */
static void let_go_of_standard_streams(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd <= 1; fd++)
        dup2(null, fd);
}

int main(int argc, char **argv) {
    char **command = take_command_line(argc, argv);
    uid_t uid = geteuid();
    gid_t gid = getegid();
    bool real_root = uid == 0 && !keep_network;
    if (fcntl(control, F_SETFD, FD_CLOEXEC) < 0)
        fail("CONTROL_FD");
    if (!real_root)
        map_self_into(uid, gid);
    int kinds = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
    if (unshare(kinds | (keep_network ? 0 : CLONE_NEWNET)) < 0)
        fail("unshare of the namespaces");

    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0)
        be_process_one(command, uid, gid, real_root);
    close(control);
    let_go_of_standard_streams();
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
