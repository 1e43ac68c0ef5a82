/*
 * One line a message, on standard error. Under systemd each line carries its priority (sd-daemon(3)),
 * elsewhere the program's name. Not for what a client may cause at will: that belongs in DEBUG.
 */
#pragma once

#include "protocol/fault.h"

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_NOTICE,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/* The name stands before every line; it must stay. Call once, before other threads start. */
void log_open(const char *program);
void log_set_level(enum log_level level);

void log_message(enum log_level level, const char *format, ...) FAULT_PRINTF(2, 3);

#define log_error(...) log_message(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_message(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...) log_message(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...) log_message(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_message(LOG_LEVEL_DEBUG, __VA_ARGS__)
