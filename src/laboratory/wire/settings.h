/*
 * settings.h - the settings of one direction of the link: its parameters, and the script of rules
 * that drop, duplicate or hold chosen frames in the same way on every run; and answers to commands.
 */
#pragma once

#include "json.h"
#include "packet.h"

/* Begins {"ok": true, to which the caller adds members before json_finish(). */
struct json answer_begin(void);

void answer_ok(void);

/* Always returns false, so that a parser can return its result. */
bool answer_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum discipline { TAIL_DROP, CODEL, FQ_CODEL, PIE, DISCIPLINES };

struct settings {
    int64_t delay_ns, rate_bps, queue_packets, hold_ns, seed, mtu, icmp;
    int64_t aqm, ecn, target_ns, interval_ns; /* see queue.h */
    double loss;
};

extern const struct settings default_settings;

/* Applies "key=value"; returns false and answers with an error if it is invalid. */
bool settings_assign(struct settings *set, const char *assignment);

/* Prints a line for each key. */
void settings_print_help(void);

/* Parses a whole number from 0 to max that ends the text. */
bool parse_whole(const char *text, int64_t max, int64_t *value);

enum { MAX_RULES = 32, MAX_RANGES = 16 };

enum action { DROP, DUPLICATE, HOLD, ACTIONS };

enum what { ANY, IP, TCP, DATA, ACK, SYN, FIN, RST, UDP, ICMP, WHATS };

/* A rule numbers the matching frames from 1, and applies to the chosen ones. */
struct rule {
    enum action action;
    enum what what;
    uint16_t port; /* TCP or UDP port at either end; 0 for all */
    struct range {
        uint64_t first, last;
    } nth[MAX_RANGES];
    unsigned nth_count; /* 0 for all */
    uint64_t every;     /* 0 for all */
    uint64_t seen;
};

struct script {
    struct rule rules[MAX_RULES];
    unsigned count;
};

/* Parses "ACTION WHAT [CONDITION]..."; returns false and answers with an error if it is invalid. */
bool rule_parse(struct rule *rule, char **words, int count);

bool rule_matches(const struct rule *rule, const struct headers *h);

/* Counts this frame; returns the rules' actions on it, with bit 1 << action for each. */
unsigned script_strikes(struct script *script, const struct headers *h);
