/* In each shared object, before libgcc's function of that name, which is for split stacks. */
#include <pthread.h>

#include "sim.h"

extern int sim_thread(pthread_t *thread, void *(*run)(void *), void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *user);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *user) {
	(void)attributes;
	return sim_thread(thread, run, user);
}
