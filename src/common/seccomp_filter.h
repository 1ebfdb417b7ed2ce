/*
 * seccomp_filter.h - a seccomp filter, written instruction by instruction. It is a program for a
 * small virtual machine that sees a system call's number and arguments. A process has one. Source:
 * seccomp(2).
 */
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

/* The filter's constants for this architecture, or 0 if it is unknown, and for the 32-bit programs
   that the same kernel may run. */
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
#else
#define THIS_ARCHITECTURE 0
#endif

/* The filter written so far. */
extern struct sock_fprog seccomp_filter;

/* Loads the word at an offset in struct seccomp_data. */
void filter_load(size_t offset);

/* Skips if_true or if_false instructions, depending on the test of the loaded value (BPF_JEQ,
   BPF_JGE or BPF_JSET). */
void filter_skip(int test, unsigned value, size_t if_true, size_t if_false);

void filter_answer(unsigned what);
void filter_answer_if_equal(unsigned value, unsigned what);
