/*
 * script.h - rules that drop, duplicate or hold chosen frames, the same on every run.
 */
#pragma once

#include "json.h"
#include "packet.h"

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
    uint64_t seen, struck;
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

/* As an array of objects, with what each rule has seen and struck. */
void script_write(struct json *j, const struct script *script);
