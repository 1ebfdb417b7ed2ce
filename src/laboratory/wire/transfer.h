/*
 * transfer.h - frames in, from the rings of a side into the link; and frames out, from the link to
 * the interfaces, many to a system call.
 */
#pragma once

#include "link.h"

/* Takes what has come until `now`, at most BATCH frames; returns how many. */
unsigned take_arrivals(struct direction *d, int64_t now);

/* Sends what is due at time `now`; returns how many frames left. */
unsigned send_due(struct direction *d, int64_t now);
