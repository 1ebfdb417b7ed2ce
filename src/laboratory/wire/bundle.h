/*
 * bundle.h - how the wire hands many TCP segments to the kernel at once.
 *
 * Sent one by one, each frame runs the receiving host's whole TCP before the next
 * one leaves, on this CPU and with cold caches: that, not this program, limits how
 * much the wire carries. So consecutive segments of one connection that are due
 * together are sent as one super-segment, and the kernel, which may not hand a
 * super-segment to this interface (its TSO is off), cuts it up again on the way
 * out (Documentation/networking/segmentation-offloads.rst, GSO) and delivers the
 * frames in one go. On a 2-core machine that carries 1.7 times as much.
 *
 * It is done only where the kernel gives back every frame bit for bit: equal
 * headers, sequence numbers and IP identifications that follow each other, full
 * segments but for the last, and correct checksums, since the kernel makes new
 * ones. Every other frame goes on its own, just as it came.
 */
#pragma once

#include "frame.h"
#include "packet.h"

enum { BUNDLE_HEADERS = sizeof(struct virtio_net_hdr) + 14 + 20 + 60 }; /* Ethernet, IPv4, TCP */

/* Where the payload begins if the frame is a segment that might be bundled; otherwise 0. */
uint16_t bundle_payload_at(const uint8_t *data, const struct headers *h,
                           const struct virtio_net_hdr *offload);

/* How many of the frames, at least 1, can leave as one bundle. */
unsigned bundle_size(struct frame *const *frames, unsigned count);

/*
 * The message for `size` frames: the first one's headers, adapted, and then the
 * payload of each. Returns the pieces used, size + 1.
 */
unsigned bundle_message(struct frame *const *frames, unsigned size, uint8_t headers[BUNDLE_HEADERS],
                        struct iovec *pieces);
