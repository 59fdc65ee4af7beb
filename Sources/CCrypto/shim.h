#pragma once
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/obj_mac.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

// Swift does not import this macro, because it is an expression of other macros.
static const int latchkey_evp_pkey_parameters = EVP_PKEY_KEY_PARAMETERS;

static const int latchkey_evp_pkey_public_key = EVP_PKEY_PUBLIC_KEY;

// Parameter names as pointers that live for ever: Swift would pass the macros as copies that die with the call, and an
// OSSL_PARAM keeps the pointer.
static const char *const latchkey_param_group_name = OSSL_PKEY_PARAM_GROUP_NAME;
static const char *const latchkey_param_rsa_n = OSSL_PKEY_PARAM_RSA_N;
static const char *const latchkey_param_rsa_e = OSSL_PKEY_PARAM_RSA_E;

// The 32-byte SHA-256 hash of `count` bytes; 1 when it is there. EVP allocates a state for each hash, which costs as much as
// hashing what is short. OpenSSL's functions for a state on the stack are deprecated in its favour, and kept.
static inline int latchkey_sha256(const unsigned char *bytes, size_t count, unsigned char *hash) {
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
  SHA256_CTX state;
  int done = SHA256_Init(&state) == 1 && SHA256_Update(&state, bytes, count) == 1 && SHA256_Final(hash, &state) == 1;
#pragma clang diagnostic pop
  // What was hashed may be a secret.
  OPENSSL_cleanse(&state, sizeof state);
  return done;
}
