#pragma once
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

// OpenSSL spells much of its interface as macros, which Swift does not import: one function each.

static inline int lk_ssl_ctx_set_min_version(SSL_CTX *context, int version) {
  return (int)SSL_CTX_set_min_proto_version(context, version);
}

static inline int lk_ssl_ctx_set_max_version(SSL_CTX *context, int version) {
  return (int)SSL_CTX_set_max_proto_version(context, version);
}

static inline void lk_ssl_ctx_set_mode(SSL_CTX *context, long mode) {
  SSL_CTX_set_mode(context, mode);
}

static inline void lk_ssl_ctx_clear_mode(SSL_CTX *context, long mode) {
  SSL_CTX_clear_mode(context, mode);
}

// No compression (CRIME), no renegotiation (RFC 9113 §9.2.1 forbids it after the preface).
static inline void lk_ssl_ctx_set_options(SSL_CTX *context) {
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
#ifdef SSL_OP_NO_RX_CERTIFICATE_COMPRESSION
  // A few bytes could stand for many.
  SSL_CTX_set_options(context, SSL_OP_NO_RX_CERTIFICATE_COMPRESSION);
#endif
}

static inline void lk_ssl_ctx_set_max_cert_list(SSL_CTX *context, long bytes) {
  SSL_CTX_set_max_cert_list(context, bytes);
}

static inline int lk_ssl_ctx_set_groups(SSL_CTX *context, const char *groups) {
  return (int)SSL_CTX_set1_groups_list(context, groups);
}

static inline int lk_ssl_ctx_add_chain_certificate(SSL_CTX *context, X509 *certificate) {
  return (int)SSL_CTX_add1_chain_cert(context, certificate);
}

static inline long lk_ssl_ctx_set_session_cache_mode(SSL_CTX *context, long mode) {
  return SSL_CTX_set_session_cache_mode(context, mode);
}

static inline long lk_ssl_ctx_ticket_keys_length(SSL_CTX *context) {
  return SSL_CTX_get_tlsext_ticket_keys(context, NULL, 0);
}

static inline int lk_ssl_ctx_set_ticket_keys(SSL_CTX *context, unsigned char *keys, long length) {
  return (int)SSL_CTX_set_tlsext_ticket_keys(context, keys, length);
}

static inline int lk_ssl_set_server_name(SSL *session, const char *name) {
  return (int)SSL_set_tlsext_host_name(session, name);
}

static inline void *lk_ssl_get_app_data(const SSL *session) {
  return SSL_get_app_data(session);
}

static inline int lk_ssl_set_app_data(SSL *session, void *data) {
  return (int)SSL_set_app_data(session, data);
}

static inline void lk_bio_set_retry_read(BIO *bio) {
  BIO_clear_retry_flags(bio);
  BIO_set_retry_read(bio);
}

static inline void lk_bio_clear_retry(BIO *bio) {
  BIO_clear_retry_flags(bio);
}

static inline int lk_bio_type(void) {
  return BIO_get_new_index() | BIO_TYPE_SOURCE_SINK;
}

// The stacks of OpenSSL are typed by macros as well.

static inline int lk_general_names_count(const GENERAL_NAMES *names) {
  return sk_GENERAL_NAME_num(names);
}

static inline const GENERAL_NAME *lk_general_names_at(const GENERAL_NAMES *names, int index) {
  return sk_GENERAL_NAME_value(names, index);
}

static inline void lk_general_names_free(GENERAL_NAMES *names) {
  GENERAL_NAMES_free(names);
}

// The bytes of a DNS name, a URI or an IP address; NULL for the kinds of name that Latchkey does not use.
static inline const unsigned char *lk_general_name_bytes(const GENERAL_NAME *name, int *kind, int *length) {
  const ASN1_STRING *value = NULL;
  *kind = name->type;
  switch (name->type) {
    case GEN_DNS: value = name->d.dNSName; break;
    case GEN_URI: value = name->d.uniformResourceIdentifier; break;
    case GEN_IPADD: value = name->d.iPAddress; break;
    default: return NULL;
  }
  *length = ASN1_STRING_length(value);
  return ASN1_STRING_get0_data(value);
}

// A password callback that has none: without it OpenSSL would ask on the terminal.
static inline int lk_no_password(char *buffer, int size, int writing, void *context) {
  (void)buffer, (void)size, (void)writing, (void)context;
  return -1;
}

static inline EVP_PKEY *lk_pem_read_private_key(BIO *bio) {
  return PEM_read_bio_PrivateKey(bio, NULL, lk_no_password, NULL);
}

static inline X509 *lk_pem_read_certificate(BIO *bio) {
  return PEM_read_bio_X509(bio, NULL, lk_no_password, NULL);
}
