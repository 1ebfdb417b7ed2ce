/*
 * seccomp.h - the system calls that a submission may not make.
 */
#pragma once

#include <stdbool.h>

/*
 * Refuses, from now on and in all that is started, the calls that only a kernel's developer or
 * attacker needs; with no_lab also those that make namespaces and mounts. Source: seccomp(2).
 */
void refuse_system_calls(bool no_lab);
