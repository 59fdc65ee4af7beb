internal import Glibc

/// Each thread's arena, made at its first message and freed when the thread ends.
enum ThreadArena {
  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    // The destructor gets what `current` stored: a retained Arena.
    let status = unsafe pthread_key_create(&key) { value in
      guard let value = unsafe value else { return }
      unsafe Unmanaged<Arena>.fromOpaque(value).release()
    }
    precondition(status == 0, "a process starts with over a hundred thread keys, and this takes one")
    return key
  }()

  static var current: Arena {
    // What is stored under the key is an Arena that the thread retains until it ends.
    if let value = unsafe pthread_getspecific(key) {
      return unsafe Unmanaged<Arena>.fromOpaque(value).takeUnretainedValue()
    }
    let arena = Arena()
    let value = unsafe Unmanaged.passRetained(arena).toOpaque()
    // Without memory for the slot the arena serves this one call, and then goes.
    if unsafe pthread_setspecific(key, value) != 0 { unsafe Unmanaged<Arena>.fromOpaque(value).release() }
    return arena
  }
}
