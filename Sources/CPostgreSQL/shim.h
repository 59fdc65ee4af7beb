#pragma once
#include <libpq-fe.h>
#include <sys/eventfd.h>

/* The names of an error's fields are characters, which Swift imports as integers of another width. */
static inline char *latchkey_pq_sqlstate(const PGresult *result) {
  return PQresultErrorField(result, PG_DIAG_SQLSTATE);
}

/* In English, whatever the server's language is. */
static inline char *latchkey_pq_severity(const PGresult *result) {
  return PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
}

/* Without the detail, which names stored values. */
static inline char *latchkey_pq_message(const PGresult *result) {
  return PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
}

/* A counter that one thread adds to and another waits for, both without blocking. */
static inline int latchkey_event_counter(void) {
  return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}
