#pragma once

#include <sys/epoll.h>

// What Swift's module of the C library leaves out.

/// An epoll instance that programs which are started do not inherit, or -1 with `errno`.
static inline int latchkey_epoll(void) { return epoll_create1(EPOLL_CLOEXEC); }

/// Whether the kernel has room to watch `descriptor` in one more epoll instance. Leaves nothing in `instance`.
static inline int latchkey_epoll_has_room(int instance, int descriptor) {
  struct epoll_event event = {0};
  return epoll_ctl(instance, EPOLL_CTL_ADD, descriptor, &event) == 0 &&
         epoll_ctl(instance, EPOLL_CTL_DEL, descriptor, &event) == 0;
}
