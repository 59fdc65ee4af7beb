/* Tells the thread sanitizer what a contended `Mutex` of Swift does.
 *
 * Its fast paths are compiled into our code, where the sanitizer sees them. The slow ones, for a contended lock, are in
 * the standard library, which is not instrumented: everything behind such a lock would look like a race. These stand in
 * for them, and say what they do.
 *
 * To be preloaded into a program with the sanitizer; Tests/Tools/sanitize does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

/* Of the sanitizer's runtime; there is none in the other programs that run meanwhile. */
__attribute__((weak)) void __tsan_acquire(void *address);
__attribute__((weak)) void __tsan_release(void *address);

#define METHOD __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *self

/* `_MutexHandle._lockSlow(_:)`, `._tryLockSlow()` and `._unlockSlow()`. A handle is nothing but the lock's word. */
#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define TRY_LOCK "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

typedef METHOD void (*lock_function)(uint32_t thread, SELF);
typedef METHOD bool (*try_lock_function)(SELF);
typedef METHOD void (*unlock_function)(SELF);

METHOD void lock_slow(uint32_t thread, SELF) __asm__(LOCK);
METHOD bool try_lock_slow(SELF) __asm__(TRY_LOCK);
METHOD void unlock_slow(SELF) __asm__(UNLOCK);

METHOD void lock_slow(uint32_t thread, SELF) {
  ((lock_function)dlsym(RTLD_NEXT, LOCK))(thread, self);
  if (__tsan_acquire) __tsan_acquire(self);
}

METHOD bool try_lock_slow(SELF) {
  bool is_locked = ((try_lock_function)dlsym(RTLD_NEXT, TRY_LOCK))(self);
  if (is_locked && __tsan_acquire) __tsan_acquire(self);
  return is_locked;
}

METHOD void unlock_slow(SELF) {
  if (__tsan_release) __tsan_release(self);
  ((unlock_function)dlsym(RTLD_NEXT, UNLOCK))(self);
}
