/*
 * arrivals.h - frames in: from the rings of a side into the link.
 */
#pragma once

#include "link.h"

/* Takes what has come until `now`, at most BATCH frames; returns how many. */
unsigned take_arrivals(struct direction *d, int64_t now);
