/* root.c - see root.h. */
#include "root.h"

#include "process.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_BINDS = 64 };

/* Constants of the mount API of Linux 5.2; glibc declares them only since 2.36. */
enum { TREE_CLONE = 1, TREE_RECURSIVE = 0x8000, MOVE_FROM_FD = 4, EMPTY_PATH = 0x1000 };
enum { READ_ONLY = 1, NO_SUID = 2, NO_DEVICES = 4 };

/* The contents of the new root, each as a detached copy of a mount and its path. */
static struct {
    const char *path;
    int tree;
} binds[MAX_BINDS];
static int bind_count;

void add_bind(const char *path) {
    if (bind_count == MAX_BINDS)
        usage_error("more than %d paths to bind", MAX_BINDS);
    binds[bind_count++].path = path;
}

/* The parts of the system that compilers and interpreters need; links remain links. */
static const char *const system_paths[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32"};
static const char *const other_paths[] = {
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/localtime",    "/etc/fonts",       "/etc/protocols",  "/etc/services",
    "/dev/null",         "/dev/zero",        "/dev/full",       "/dev/random",
    "/dev/urandom",
};

static void add_system_binds(void) {
    struct stat about;
    for (size_t i = 0; i < COUNT(system_paths); i++)
        if (lstat(system_paths[i], &about) == 0 && !S_ISLNK(about.st_mode))
            add_bind(system_paths[i]);
    for (size_t i = 0; i < COUNT(other_paths); i++)
        if (access(other_paths[i], F_OK) == 0)
            add_bind(other_paths[i]);
}

/* Copies a mount before the old root is covered, and makes it and all mounts below it read-only. */
static int clone_tree(const char *path) {
    struct {
        uint64_t set, clear, propagation, user;
    } attributes = {.set = READ_ONLY | NO_SUID};
    if (strncmp(path, "/dev/", 5) != 0)
        attributes.set |= NO_DEVICES;
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, TREE_CLONE | TREE_RECURSIVE | O_CLOEXEC);
    if (tree < 0)
        fail("open_tree of %s", path);
    if (syscall(SYS_mount_setattr, tree, "", EMPTY_PATH | TREE_RECURSIVE, &attributes,
                sizeof attributes) < 0)
        fail("mount_setattr of %s (it needs Linux 5.12)", path);
    return tree;
}

/* Makes the directory of each slash in a path under /mnt. */
static void make_directories(char *path) {
    for (char *slash = strchr(path + 5, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            fail("mkdir %s", path);
        *slash = '/';
    }
}

static void attach(int tree, const char *place) {
    char path[PATH_MAX];
    struct stat about;
    bool is_directory = fstat(tree, &about) == 0 && S_ISDIR(about.st_mode);
    snprintf(path, sizeof path, "/mnt%s%s", place, is_directory ? "/" : "");
    make_directories(path);
    if (!is_directory) {
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        /* A path below another bound path exists already. */
        if (fd < 0 && errno != EROFS && errno != EEXIST)
            fail("creating %s", path);
        if (fd >= 0)
            close(fd);
    }
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_FROM_FD) < 0)
        fail("move_mount to %s", place);
    close(tree);
}

/* Programs need some user names; those of the machine's users are hidden. */
static void write_etc(uid_t uid, gid_t gid) {
    char text[256];
    snprintf(text, sizeof text, "learner:x:%u:%u:learner:/submission:/bin/sh\n", uid, gid);
    write_file("/mnt/etc/passwd", text);
    snprintf(text, sizeof text, "learner:x:%u:\n", gid);
    write_file("/mnt/etc/group", text);
    write_file("/mnt/etc/hosts", "127.0.0.1 localhost\n10.0.0.1 client\n10.0.0.2 server\n");
    write_file("/mnt/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n");
}

static void bind_writable(const char *folder, const char *place, const struct root *root) {
    char from[64], to[64];
    snprintf(from, sizeof from, "/mnt/writable/%s", folder);
    snprintf(to, sizeof to, "/mnt%s", place);
    if (mkdir(from, 0755) < 0 || (mkdir(to, 0755) < 0 && errno != EEXIST))
        fail("mkdir %s", to);
    if (chown(from, root->uid, root->gid) < 0)
        fail("chown of %s", place);
    if (mount(from, to, NULL, MS_BIND, NULL) < 0)
        fail("binding %s", place);
}

/* Makes one tmpfs for all writable places, so that one limit applies to all. */
static void make_writable_places(const struct root *root) {
    char options[64];
    snprintf(options, sizeof options, "size=%lld,nr_inodes=20000,mode=755",
             (long long)root->folder_bytes);
    if (mkdir("/mnt/writable", 0700) < 0 ||
        mount("tmpfs", "/mnt/writable", "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
        fail("mounting the submission's folder");
    bind_writable("submission", "/submission", root);
    bind_writable("tmp", "/tmp", root);
    bind_writable("shm", "/dev/shm", root);
    umount2("/mnt/writable", MNT_DETACH);
    rmdir("/mnt/writable");
}

static void mount_proc(bool read_only) {
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | (read_only ? MS_RDONLY : 0);
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

void make_root(const struct root *root) {
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        fail("making the mounts private");
    add_system_binds();
    for (int i = 0; i < bind_count; i++)
        binds[i].tree = clone_tree(binds[i].path);
    int given_tree = root->given ? clone_tree(root->given) : -1;
    if (mount("tmpfs", "/mnt", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755") < 0)
        fail("mounting a tmpfs on /mnt");
    for (size_t i = 0; i < COUNT(system_paths); i++) {
        char target[PATH_MAX] = "", path[64];
        snprintf(path, sizeof path, "/mnt%s", system_paths[i]);
        if (readlink(system_paths[i], target, sizeof target - 1) > 0 && symlink(target, path) < 0)
            fail("symlink %s", path);
    }
    /* lab_init needs a /mnt, too. */
    if (mkdir("/mnt/dev", 0755) < 0 || mkdir("/mnt/mnt", 0755) < 0)
        fail("mkdir /mnt/dev");
    /* Do this before the binds, since Python may be installed under /tmp. */
    make_writable_places(root);
    for (int i = 0; i < bind_count; i++)
        attach(binds[i].tree, binds[i].path);
    if (root->given)
        attach(given_tree, "/given");
    write_etc(root->uid, root->gid);
    mount_proc(root->proc_read_only);
    if (symlink("/proc/self/fd", "/mnt/dev/fd") < 0)
        fail("symlink /dev/fd");
    enter_new_root();
}
