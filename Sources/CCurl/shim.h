#pragma once
#include <curl/curl.h>

// curl_easy_setopt takes any kind of argument, which Swift does not import: one function for each kind.

static inline CURLcode lk_curl_set_text(CURL *handle, CURLoption option, const char *text) {
  return curl_easy_setopt(handle, option, text);
}

static inline CURLcode lk_curl_set_number(CURL *handle, CURLoption option, long number) {
  return curl_easy_setopt(handle, option, number);
}

static inline CURLcode lk_curl_set_size(CURL *handle, CURLoption option, curl_off_t size) {
  return curl_easy_setopt(handle, option, size);
}

static inline CURLcode lk_curl_set_list(CURL *handle, CURLoption option, struct curl_slist *list) {
  return curl_easy_setopt(handle, option, list);
}

static inline CURLcode lk_curl_set_pointer(CURL *handle, CURLoption option, void *pointer) {
  return curl_easy_setopt(handle, option, pointer);
}

static inline CURLcode lk_curl_set_callback(
    CURL *handle, CURLoption option, size_t (*callback)(char *, size_t, size_t, void *)) {
  return curl_easy_setopt(handle, option, callback);
}

static inline CURLcode lk_curl_response_code(CURL *handle, long *code) {
  return curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, code);
}

static inline CURLcode lk_curl_pretransfer_time(CURL *handle, curl_off_t *microseconds) {
  return curl_easy_getinfo(handle, CURLINFO_PRETRANSFER_TIME_T, microseconds);
}

static inline CURLcode lk_curl_global_init(void) {
  return curl_global_init(CURL_GLOBAL_DEFAULT);
}
