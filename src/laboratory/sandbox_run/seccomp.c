/* seccomp.c - see seccomp.h. */
#define _GNU_SOURCE
#include "seccomp.h"

#include "process.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

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

void refuse_system_calls(bool no_lab) {
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
#else
    (void)no_lab;
#endif
}
