/*
 * commands.h - commands from the owner of the wire on standard input, one per line, each answered
 * by one line of JSON.
 */
#pragma once

void print_command_help(void);

/* Call this when standard input is readable, so that a read does not wait. At its end the program
   ends. */
void read_commands(void);

/* Completes the recording's file, however the program ends. */
void finish_capture(void);
