/* counters.c - see counters.h. */
#define _GNU_SOURCE
#include "counters.h"

#include "clocks.h"

#include <math.h>

const char *const reason_names[REASONS] = {
    [QUEUE] = "queue",       /* the queue was full */
    [LOSS] = "loss",         /* chance */
    [SCRIPT] = "script",     /* a rule of the script */
    [MTU] = "mtu",           /* longer than the hop's MTU, and DF set */
    [OVERSIZE] = "oversize", /* longer than the interface's MTU: super-segments need --offload */
    [MEMORY] = "memory",     /* the frames in flight filled --memory */
    [DEVICE] = "device",     /* the kernel refused it on the way out: the interface is down */
};

static unsigned bucket_of(int64_t ns) {
    uint64_t value = ns > 0 ? (uint64_t)ns : 0;
    if (value < SUB_BUCKETS)
        return (unsigned)value;
    unsigned power = 63 - (unsigned)__builtin_clzll(value);
    return (power - 3) * SUB_BUCKETS + (unsigned)(value >> (power - 4) & (SUB_BUCKETS - 1));
}

/* The largest value that falls into the bucket. */
static int64_t bucket_top_ns(unsigned bucket) {
    if (bucket < SUB_BUCKETS)
        return bucket;
    unsigned power = bucket / SUB_BUCKETS + 3;
    uint64_t step = UINT64_C(1) << (power - 4);
    return (int64_t)((SUB_BUCKETS + bucket % SUB_BUCKETS + 1) * step - 1);
}

void count_lateness(struct counters *n, int64_t late_ns) {
    n->late_ns_max = max_ns(n->late_ns_max, late_ns);
    n->late[bucket_of(late_ns)]++;
}

static int64_t late_percentile_ns(const struct counters *n, double share) {
    uint64_t wanted = (uint64_t)ceil(share * (double)n->packets_out), seen = 0;
    for (unsigned i = 0; i < BUCKETS && n->packets_out; i++)
        if ((seen += n->late[i]) >= wanted)
            return min_ns(bucket_top_ns(i), n->late_ns_max);
    return 0;
}

void lateness_write(struct json *j, const struct counters *n) {
    json_object(j, "late_ns");
    json_int(j, "p50", late_percentile_ns(n, 0.5));
    json_int(j, "p90", late_percentile_ns(n, 0.9));
    json_int(j, "p99", late_percentile_ns(n, 0.99));
    json_int(j, "p999", late_percentile_ns(n, 0.999));
    json_int(j, "max", n->late_ns_max);
    json_end_object(j);
}
