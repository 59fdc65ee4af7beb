#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

// What Swift's module of the C library leaves out.

extern int accept4(int, struct sockaddr *, socklen_t *, int);

/// As accept(2) has it. A program that is started meanwhile does not inherit the connection.
static inline int latchkey_accept(int descriptor, struct sockaddr *address, socklen_t *length) {
  return accept4(descriptor, address, length, SOCK_CLOEXEC);
}

/// An epoll instance that programs which are started do not inherit, or -1 with `errno`.
static inline int latchkey_epoll(void) { return epoll_create1(EPOLL_CLOEXEC); }

/// Has `descriptor` watched in `instance`, for nothing in particular. 0, or -1 with `errno` where the kernel has no room for it.
static inline int latchkey_epoll_add(int instance, int descriptor) {
  struct epoll_event event = {0};
  return epoll_ctl(instance, EPOLL_CTL_ADD, descriptor, &event);
}

static inline void latchkey_epoll_remove(int instance, int descriptor) {
  struct epoll_event event = {0};
  (void)epoll_ctl(instance, EPOLL_CTL_DEL, descriptor, &event);
}
