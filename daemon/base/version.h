/* The version of fusiond: part of the key of every built program, so that an update builds anew. */
#pragma once

#ifndef FUSIOND_VERSION      /* the Makefile's, which is the one place that says it */
#define FUSIOND_VERSION "0.1.0"
#endif
