/* Has a service that was built with the address sanitizer look for leaks as it ends.
 *
 * The services end without exit handlers, and the sanitizer looks for leaks in one of those. This stands in for `_exit`,
 * looks, and ends with the sanitizer's status if anything was lost.
 *
 * To be preloaded into the services:
 *
 *   clang -shared -fPIC -O1 -o .build/leaks.so Tests/Sanitizers/leaks.c
 *   LD_PRELOAD=$PWD/.build/leaks.so BINARIES=$PWD/.build/sanitize-address/debug SWIFT_BACKTRACE=enable=no \
 *     ASAN_OPTIONS=log_path=$PWD/.build/report LSAN_OPTIONS=suppressions=$PWD/Tests/Sanitizers/leaks.supp \
 *     python -m pytest Tests/EndToEnd/test_tls.py
 *
 * Each report is a file of its own, .build/report.<process>.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

/* Of the sanitizer's runtime; there is none in the other programs that run meanwhile. */
__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

#define FOUND 23

__attribute__((noreturn)) void _exit(int status) {
  if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check() && status == 0) status = FOUND;
  for (;;) syscall(SYS_exit_group, status);
}
