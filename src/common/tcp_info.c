/* tcp_info.c - see tcp_info.h. */
#include "tcp_info.h"

#include "process.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

struct tcp_info read_tcp_info(int fd) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        fail("TCP_INFO");
    return info;
}

/* The kernel's names, with the unit added where linux/tcp.h leaves it to be known. */
struct tcp_info_field {
    const char *name;
    size_t offset, size;
};

#define FIELD(name, member)                                                                        \
    {name, offsetof(struct tcp_info, member), sizeof(((struct tcp_info *)0)->member)}
static const struct tcp_info_field tcp_info_fields[] = {
    FIELD("ca_state", tcpi_ca_state),
    FIELD("retransmits", tcpi_retransmits),
    FIELD("probes", tcpi_probes),
    FIELD("backoff", tcpi_backoff),
    FIELD("options", tcpi_options),
    FIELD("rto_us", tcpi_rto),
    FIELD("ato_us", tcpi_ato),
    FIELD("snd_mss_bytes", tcpi_snd_mss),
    FIELD("rcv_mss_bytes", tcpi_rcv_mss),
    FIELD("unacked", tcpi_unacked),
    FIELD("sacked", tcpi_sacked),
    FIELD("lost", tcpi_lost),
    FIELD("retrans", tcpi_retrans),
    FIELD("last_data_sent_ms", tcpi_last_data_sent),
    FIELD("last_data_recv_ms", tcpi_last_data_recv),
    FIELD("last_ack_recv_ms", tcpi_last_ack_recv),
    FIELD("pmtu_bytes", tcpi_pmtu),
    FIELD("rcv_ssthresh_bytes", tcpi_rcv_ssthresh),
    FIELD("rtt_us", tcpi_rtt),
    FIELD("rttvar_us", tcpi_rttvar),
    FIELD("snd_ssthresh", tcpi_snd_ssthresh),
    FIELD("snd_cwnd", tcpi_snd_cwnd),
    FIELD("advmss_bytes", tcpi_advmss),
    FIELD("reordering", tcpi_reordering),
    FIELD("rcv_rtt_us", tcpi_rcv_rtt),
    FIELD("rcv_space_bytes", tcpi_rcv_space),
    FIELD("total_retrans", tcpi_total_retrans),
    FIELD("pacing_rate_bytes_per_s", tcpi_pacing_rate),
    FIELD("max_pacing_rate_bytes_per_s", tcpi_max_pacing_rate),
    FIELD("bytes_acked", tcpi_bytes_acked),
    FIELD("bytes_received", tcpi_bytes_received),
    FIELD("segs_out", tcpi_segs_out),
    FIELD("segs_in", tcpi_segs_in),
    FIELD("notsent_bytes", tcpi_notsent_bytes),
    FIELD("min_rtt_us", tcpi_min_rtt),
    FIELD("data_segs_in", tcpi_data_segs_in),
    FIELD("data_segs_out", tcpi_data_segs_out),
    FIELD("delivery_rate_bytes_per_s", tcpi_delivery_rate),
    FIELD("busy_time_us", tcpi_busy_time),
    FIELD("rwnd_limited_us", tcpi_rwnd_limited),
    FIELD("sndbuf_limited_us", tcpi_sndbuf_limited),
    FIELD("delivered", tcpi_delivered),
    FIELD("delivered_ce", tcpi_delivered_ce),
    FIELD("bytes_sent", tcpi_bytes_sent),
    FIELD("bytes_retrans", tcpi_bytes_retrans),
    FIELD("dsack_dups", tcpi_dsack_dups),
    FIELD("reord_seen", tcpi_reord_seen),
    FIELD("rcv_ooopack", tcpi_rcv_ooopack),
    FIELD("snd_wnd_bytes", tcpi_snd_wnd),
};
#undef FIELD

static const char *const tcp_states[] = {
    "unknown", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2",   "TIME_WAIT",
    "CLOSE",   "CLOSE_WAIT",  "LAST_ACK", "LISTEN",   "CLOSING",   "NEW_SYN_RECV"};

/* "No limit" is all ones in the kernel, which would read as -1. */
static void json_tcp_info_field(struct json *j, const struct tcp_info *info,
                                const struct tcp_info_field *field) {
    const char *start = (const char *)info + field->offset;
    uint64_t wide = UINT64_MAX;
    uint32_t word;
    if (field->size == sizeof wide)
        memcpy(&wide, start, sizeof wide);
    else if (field->size == sizeof word)
        wide = (memcpy(&word, start, sizeof word), word);
    else
        wide = *(const uint8_t *)start;
    if (wide == UINT64_MAX)
        json_null(j, field->name);
    else
        json_int(j, field->name, (int64_t)wide);
}

void json_tcp_info(struct json *j, const char *key, const struct tcp_info *info) {
    size_t states = sizeof tcp_states / sizeof *tcp_states;
    json_object(j, key);
    json_string(j, "state", tcp_states[info->tcpi_state < states ? info->tcpi_state : 0]);
    json_int(j, "snd_wscale", info->tcpi_snd_wscale);
    json_int(j, "rcv_wscale", info->tcpi_rcv_wscale);
    json_bool(j, "delivery_rate_app_limited", info->tcpi_delivery_rate_app_limited);
    for (size_t i = 0; i < sizeof tcp_info_fields / sizeof *tcp_info_fields; i++)
        json_tcp_info_field(j, info, &tcp_info_fields[i]);
    json_end_object(j);
}
