/*
 * transfer.h - moving frames from a side's rings into the link, and from the link to the
 * interfaces, many per system call.
 */
#pragma once

#include "link.h"

/* Takes at most BATCH frames that came until `now`; returns their number. */
unsigned take_arrivals(struct direction *d, int64_t now);

/* Sends frames that are due at time `now`; returns the number that left. */
unsigned send_due(struct direction *d, int64_t now);
