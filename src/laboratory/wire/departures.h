/*
 * departures.h - frames out: from the link to the interfaces, many to a system call.
 */
#pragma once

#include "link.h"

/* Sends what is due at time `now`; returns how many frames left. */
unsigned send_due(struct direction *d, int64_t now);
