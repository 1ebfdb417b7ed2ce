/*
 * settings.h - what one direction of the link is to do: its parameters, and the script of rules
 * that drop, duplicate or hold chosen frames, the same on every run. And the answer to a command.
 */
#pragma once

#include "json.h"
#include "packet.h"

/* {"ok": true, and what the caller adds before json_finish(). */
struct json answer_begin(void);

void answer_ok(void);

/* Always false, so that a parser can return it. */
bool answer_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum discipline { TAIL_DROP, CODEL, FQ_CODEL, PIE, DISCIPLINES };

struct settings {
    int64_t delay_ns, rate_bps, queue_packets, hold_ns, seed, mtu, icmp;
    int64_t aqm, ecn, target_ns, interval_ns, quantum_bytes; /* see queue.h */
    double loss;
};

extern const struct settings default_settings;

/* Applies "key=value"; false, with the answer given, if it is no good. */
bool settings_assign(struct settings *set, const char *assignment);

/* A line for each key. */
void settings_print_help(void);

/* A whole number from 0 to max, with nothing behind it. */
bool parse_whole(const char *text, int64_t max, int64_t *value);

enum { MAX_RULES = 32, MAX_RANGES = 16 };

enum action { DROP, DUPLICATE, HOLD, ACTIONS };

enum what { ANY, IP, TCP, DATA, ACK, SYN, FIN, RST, UDP, ICMP, WHATS };

/* A rule sees the frames that match, numbers them from 1, and strikes those it is to. */
struct rule {
    enum action action;
    enum what what;
    uint16_t port; /* TCP or UDP, either end; 0: all */
    struct range {
        uint64_t first, last;
    } nth[MAX_RANGES];
    unsigned nth_count; /* 0: all */
    uint64_t every;     /* 0: all */
    uint64_t seen;
};

struct script {
    struct rule rules[MAX_RULES];
    unsigned count;
};

/* "ACTION WHAT [CONDITION]..."; false, with the answer given, if it is no rule. */
bool rule_parse(struct rule *rule, char **words, int count);

bool rule_matches(const struct rule *rule, const struct headers *h);

/* What the rules do to this frame: bit 1 << action for each action. Counts it. */
unsigned script_strikes(struct script *script, const struct headers *h);
