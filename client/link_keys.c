/* What each side of tls shows and believes: certificates, keys and random numbers. See link.h. */
#include "link_state.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <mbedtls/error.h>
#include <mbedtls/ssl_ciphersuites.h>

static int refuse_file(const char *what, const char *path, int code, struct fault *f) {
	char why[128];

	mbedtls_strerror(code, why, sizeof why);
	return fault_set(f, FAULT_ARGUMENT, "the %s %s cannot be used: %s", what, path, why);
}

static bool given(const char *path) {
	return path && *path;
}

static int read_key(struct link_keys *k, const char *path) {
#if MBEDTLS_VERSION_MAJOR >= 3
	return mbedtls_pk_parse_keyfile(&k->key, path, NULL, mbedtls_ctr_drbg_random, &k->random);
#else
	return mbedtls_pk_parse_keyfile(&k->key, path, NULL);
#endif
}

static bool is_pair(struct link_keys *k) {
#if MBEDTLS_VERSION_MAJOR >= 3
	return !mbedtls_pk_check_pair(&k->certificate.pk, &k->key, mbedtls_ctr_drbg_random, &k->random);
#else
	return !mbedtls_pk_check_pair(&k->certificate.pk, &k->key);
#endif
}

static int read_files(struct link_keys *k, const struct link_files *files, struct fault *f) {
	int r;

	if (!given(files->authority))
		return fault_set(f, FAULT_ARGUMENT, "tls needs the certificate of the authority that signed the other side's");
	r = mbedtls_x509_crt_parse_file(&k->authority, files->authority);
	if (r)
		return refuse_file("certificate of the authority", files->authority, r, f);
	if (given(files->certificate) != given(files->key))
		return fault_set(f, FAULT_ARGUMENT, "a certificate and its key go together");
	if (!given(files->certificate))
		return 0;
	r = mbedtls_x509_crt_parse_file(&k->certificate, files->certificate);
	if (r)
		return refuse_file("certificate", files->certificate, r, f);
	r = read_key(k, files->key);
	if (r)
		return refuse_file("key", files->key, r, f);
	return is_pair(k) ? 0 : fault_set(f, FAULT_ARGUMENT, "the key %s is not that of the certificate %s", files->key, files->certificate);
}

/* With forward secrecy; in the order of mbedTLS's speed on x86-64: 350 MB/s of a core, then 260. */
static const int ciphers[] = {
#ifdef WITH_TLS_1_3
	MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256,
	MBEDTLS_TLS1_3_AES_128_GCM_SHA256,
	MBEDTLS_TLS1_3_AES_256_GCM_SHA384,
#endif
	MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	0,
};

static void set_versions(mbedtls_ssl_config *config) {
#if MBEDTLS_VERSION_NUMBER >= 0x03020000
	mbedtls_ssl_conf_min_tls_version(config, MBEDTLS_SSL_VERSION_TLS1_2);
#ifndef WITH_TLS_1_3
	mbedtls_ssl_conf_max_tls_version(config, MBEDTLS_SSL_VERSION_TLS1_2);
#endif
#else
	mbedtls_ssl_conf_min_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
	mbedtls_ssl_conf_max_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
#endif
}

/*
 * What mbedTLS's server says against a certificate in version 1.3 is written with the keys of the handshake, when the client has those of
 * what follows (its issue 10877): nobody can read it. So there the library takes down what it has against it, and link_tls.c
 * refuses the client as soon as the keys are the right ones.
 */
static int when_to_refuse(bool server) {
#ifdef WITH_TLS_1_3
	return server ? MBEDTLS_SSL_VERIFY_OPTIONAL : MBEDTLS_SSL_VERIFY_REQUIRED;
#else
	(void)server;
	return MBEDTLS_SSL_VERIFY_REQUIRED;
#endif
}

static int configure(struct link_keys *k, const struct link_files *files, bool server, struct fault *f) {
	int r = mbedtls_ssl_config_defaults(&k->config, server ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
		MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT);

	if (r)
		return -ENOMEM;
	set_versions(&k->config);
	mbedtls_ssl_conf_authmode(&k->config, when_to_refuse(server));
	mbedtls_ssl_conf_ciphersuites(&k->config, ciphers);
	mbedtls_ssl_conf_rng(&k->config, mbedtls_ctr_drbg_random, &k->random);
	mbedtls_ssl_conf_ca_chain(&k->config, &k->authority, NULL);
	r = given(files->certificate) ? mbedtls_ssl_conf_own_cert(&k->config, &k->certificate, &k->key) : 0;
	return r ? refuse_file("certificate", files->certificate, r, f) : 0;
}

int link_keys_new(const struct link_files *files, bool server, struct link_keys **keysp, struct fault *f) {
	struct link_keys *k = calloc(1, sizeof *k);
	int r;

	if (!k)
		return -ENOMEM;
	mbedtls_ssl_config_init(&k->config);
	mbedtls_x509_crt_init(&k->authority);
	mbedtls_x509_crt_init(&k->certificate);
	mbedtls_pk_init(&k->key);
	mbedtls_entropy_init(&k->entropy);
	mbedtls_ctr_drbg_init(&k->random);
	r = mbedtls_ctr_drbg_seed(&k->random, mbedtls_entropy_func, &k->entropy, NULL, 0) ? -EIO : 0;
	if (!r)
		r = read_files(k, files, f);
	if (!r && server && !given(files->certificate))
		r = fault_set(f, FAULT_ARGUMENT, "tls needs a certificate and its key");
	if (!r)
		r = configure(k, files, server, f);
	if (r)
		link_keys_free(k);
	else
		*keysp = k;
	return r;
}

int link_keys_renew(struct link_keys *k) {
	pid_t pid = getpid();

	return mbedtls_ctr_drbg_reseed(&k->random, (const unsigned char *)&pid, sizeof pid) ? -EIO : 0;
}

struct link_keys *link_keys_free(struct link_keys *k) {
	if (!k)
		return NULL;
	mbedtls_ssl_config_free(&k->config);
	mbedtls_x509_crt_free(&k->authority);
	mbedtls_x509_crt_free(&k->certificate);
	mbedtls_pk_free(&k->key);
	mbedtls_ctr_drbg_free(&k->random);
	mbedtls_entropy_free(&k->entropy);
	free(k);
	return NULL;
}

uint64_t link_keys_until(const struct link_keys *k) {
	const mbedtls_x509_time *t = &k->certificate.valid_to;
	struct tm day = { .tm_year = t->year - 1900, .tm_mon = t->mon - 1, .tm_mday = t->day, .tm_hour = t->hour, .tm_min = t->min, .tm_sec = t->sec };
	time_t until = t->year ? timegm(&day) : 0;

	return until > 0 ? (uint64_t)until : 0;
}
