/*
 * departures.h - frames out: from the link to the interfaces, many to a system call.
 */
#ifndef WIRE_DEPARTURES_H
#define WIRE_DEPARTURES_H

#include "link.h"

/* Sends what is due at time `now`; returns how many frames left. */
unsigned send_due(struct direction *d, int64_t now);

#endif
