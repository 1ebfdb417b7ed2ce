/*
 * architecture.h - what a seccomp filter calls this machine: THIS_ARCHITECTURE, undefined where it
 * is not known; and OTHER_ARCHITECTURE, the 32-bit programs that the same kernel may run.
 */
#pragma once

#include <linux/audit.h>

#if defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#define OTHER_ARCHITECTURE AUDIT_ARCH_I386
#elif defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#define OTHER_ARCHITECTURE AUDIT_ARCH_ARM
#elif defined(__riscv)
#define THIS_ARCHITECTURE AUDIT_ARCH_RISCV64
#elif defined(__powerpc64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define THIS_ARCHITECTURE AUDIT_ARCH_PPC64LE
#elif defined(__s390x__)
#define THIS_ARCHITECTURE AUDIT_ARCH_S390X
#endif
