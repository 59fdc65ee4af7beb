internal import CListen
internal import Glibc
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// A listening TCP socket, and the thread that accepts its connections.
///
/// The kernel has all who come in one line. A thread of its own takes them out of it as fast as they come, whatever the event
/// loops have to do; only then is it known whose they are.
///
/// The last files of the process are for everything else: the system's libraries end a process that cannot open one
/// (libdispatch looks at its threads in /proc). Where too few are left, nothing is accepted for a while.
///
/// Cost: seven system calls for each connection, of which accepting it takes some microseconds and the others less than one each.
final class Listener: Sendable {
  /// With the port that was taken.
  let address: SocketAddress
  private let descriptor: CInt
  /// An epoll instance that nobody looks at: what is accepted is watched here until an event loop does.
  private let reserve: CInt
  private let isClosing = Atomic<Bool>(false)
  private let thread = NIOThreadPool(numberOfThreads: 1)

  /// Binds to a port and has the kernel accept connections for it.
  ///
  /// - Parameters:
  ///   - host: an IP address, or a name that resolves to one.
  ///   - port: 0 takes a free one.
  /// - Throws: `IOError` with the call that failed and its number.
  static func open(host: String, port: Int) async throws -> Listener {
    // On a thread of its own: a name may take long to look up.
    let thread = NIOThreadPool(numberOfThreads: 1)
    thread.start()
    do {
      let listener = try await thread.runIfActive { try Listener(host: host, port: port) }
      try await thread.shutdownGracefully()
      return listener
    } catch {
      try? await thread.shutdownGracefully()
      throw error
    }
  }

  /// The same, and blocks while a name is looked up.
  init(host: String, port: Int) throws {
    let wanted = try SocketAddress.makeAddressResolvingHost(host, port: port)
    let descriptor = socket(wanted.protocol.rawValue, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw failed("socket") }
    let reserve = latchkey_epoll()
    do {
      guard reserve >= 0 else { throw failed("epoll_create1") }
      address = try Self.listen(descriptor, wanted)
    } catch {
      Glibc.close(descriptor)
      if reserve >= 0 { Glibc.close(reserve) }
      throw error
    }
    self.descriptor = descriptor
    self.reserve = reserve
  }

  private static func listen(_ descriptor: CInt, _ wanted: SocketAddress) throws -> SocketAddress {
    var (on, off, buffer): (CInt, CInt, CInt) = (1, 0, Limits.socketBytes)
    // The calls read what they are given, or fill it, before they return.
    let size = socklen_t(MemoryLayout<CInt>.size)
    // The connections have the buffer from the listening socket: the peer is told at the start how much it may send.
    guard unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, size) == 0,
      unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &buffer, size) == 0
    else {
      throw failed("setsockopt")
    }
    // A port of all addresses of IPv6 is one of IPv4 as well, whatever the system has for a default.
    if wanted.protocol == .inet6 { _ = unsafe setsockopt(descriptor, CInt(IPPROTO_IPV6), IPV6_V6ONLY, &off, size) }
    let bound = unsafe wanted.withSockAddr { unsafe bind(descriptor, $0, socklen_t($1)) }
    guard bound == 0 else { throw failed("bind") }
    guard Glibc.listen(descriptor, Limits.backlog) == 0 else { throw failed("listen") }
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let isKnown = unsafe withUnsafeMutablePointer(to: &storage) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe getsockname(descriptor, $0, &length) }
    }
    guard isKnown == 0, let address = SocketAddress(storage) else { throw ChannelError.unknownLocalAddress }
    return address
  }

  /// Begins to accept. Once.
  ///
  /// - Parameters:
  ///   - isShort: called with what the system has too little of when nothing is accepted because of that, of each at most
  ///     once in ``Limits/shortageLine``.
  ///   - accepted: called on the listener's thread, which accepts nothing else until it returns.
  func start(
    isShort: @escaping @Sendable (String) -> Void = { _ in }, _ accepted: @escaping @Sendable (AcceptedSocket) -> Void
  ) {
    guard !isClosing.load(ordering: .acquiring) else { return }
    thread.start()
    thread.submit { [self] state in
      guard state == .active else { return }
      // The system has a few words for it.
      var lastLines: [String: ContinuousClock.Instant] = [:]
      let wait = { [self] (shortage: String) in
        if lastLines[shortage].map({ .now - $0 > Limits.shortageLine }) ?? true {
          lastLines[shortage] = .now
          isShort(shortage)
        }
        pause()
      }
      while !isClosing.load(ordering: .acquiring) {
        if let socket = accept(orWait: wait) { accepted(socket) }
        while !isClosing.load(ordering: .acquiring), !Self.hasSpareFiles { wait("open files") }
      }
    }
  }

  /// Stops accepting, and returns when the last connection was handed on. Once, and also before the listener was started.
  func close() async {
    isClosing.store(true, ordering: .releasing)
    // Ends an accept that waits for somebody, and each that comes later.
    shutdown(descriptor, CInt(SHUT_RDWR))
    try? await thread.shutdownGracefully()
    Glibc.close(descriptor)
    Glibc.close(reserve)
  }

  /// Waits for a connection. Nil when there was none after all.
  private func accept(orWait wait: (_ shortage: String) -> Void) -> AcceptedSocket? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    // accept fills the address and keeps nothing.
    let accepted = unsafe withUnsafeMutablePointer(to: &storage) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe latchkey_accept(descriptor, $0, &length)
      }
    }
    guard accepted >= 0 else {
      let error = errno
      // What went wrong with one connection says nothing of the next.
      if !Self.errorsOfOne.contains(error), !isClosing.load(ordering: .acquiring) {
        wait("room for connections, error \(error)")
      }
      return nil
    }
    // SwiftNIO ends the process where the kernel has no room to watch a descriptor (fs.epoll.max_user_watches, memory): so this
    // one has its room from now on.
    guard latchkey_epoll_add(reserve, accepted) == 0 else {
      let error = errno
      Glibc.close(accepted)
      wait("room to watch connections, error \(error)")
      return nil
    }
    return AcceptedSocket(accepted, from: SocketAddress(storage), watchedBy: reserve)
  }

  /// What accept(2) says of a connection that ended before it was accepted.
  private static let errorsOfOne: Set<CInt> = [
    EINTR, ECONNABORTED, EPROTO, ENETDOWN, ENETUNREACH, ENOPROTOOPT, EHOSTDOWN, EHOSTUNREACH, ENONET,
  ]

  private func pause() {
    guard !isClosing.load(ordering: .acquiring) else { return }
    usleep(useconds_t(Limits.acceptPause.nanoseconds / 1000))
  }

  /// Whether the lowest number that is free leaves room for others: the kernel gives the lowest one to whoever asks. The limit is
  /// asked for each time, since it may be changed from outside.
  private static var hasSpareFiles: Bool {
    let lowest = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)
    // Without a standard error there is nothing to make a second one of, and nothing is known.
    if lowest < 0 { return errno != EMFILE }
    Glibc.close(lowest)
    var limit = rlimit()
    // getrlimit fills the struct and keeps nothing.
    guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return true }
    return Int(lowest) + Limits.spareFiles < Int(clamping: limit.rlim_cur)
  }
}

/// The error of a call of the system that has just failed.
private func failed(_ call: String) -> IOError { IOError(errnoCode: errno, reason: call) }

/// A connection that was accepted and is not set up yet. It is closed with the last reference to it, unless it was taken.
final class AcceptedSocket: Sendable {
  /// Nil for what is no address of a network.
  let address: SocketAddress?
  private let descriptor: Atomic<CInt>

  private let reserve: CInt

  /// - Parameter reserve: the epoll instance in which it is.
  init(_ descriptor: CInt, from address: SocketAddress?, watchedBy reserve: CInt) {
    self.descriptor = Atomic(descriptor)
    self.address = address
    self.reserve = reserve
  }

  deinit { close() }

  /// -1 when it was taken or closed.
  var number: CInt { descriptor.load(ordering: .relaxed) }

  /// The descriptor, which is the caller's now. Nil when it was closed, or the peer has reset the connection, which is closed
  /// then.
  func take() -> CInt? {
    let taken = descriptor.exchange(-1, ordering: .acquiringAndReleasing)
    guard taken >= 0 else { return nil }
    var error: CInt = 0
    var size = socklen_t(MemoryLayout<CInt>.size)
    // getsockopt fills the number and keeps nothing.
    guard unsafe getsockopt(taken, SOL_SOCKET, SO_ERROR, &error, &size) == 0, error == 0 else {
      Glibc.close(taken)
      return nil
    }
    // An event loop has its room next. After the listener has closed there is nothing to remove it from.
    latchkey_epoll_remove(reserve, taken)
    return taken
  }

  /// Unless it was taken.
  func close() {
    let closed = descriptor.exchange(-1, ordering: .acquiringAndReleasing)
    if closed >= 0 { Glibc.close(closed) }
  }
}

extension SocketAddress {
  /// Nil for what is no address of a network.
  fileprivate init?(_ storage: sockaddr_storage) {
    var storage = storage
    switch CInt(storage.ss_family) {
    case AF_INET:
      // The kernel wrote an address of that family.
      self.init(unsafe withUnsafeBytes(of: &storage) { unsafe $0.load(as: sockaddr_in.self) })
    case AF_INET6:
      self.init(unsafe withUnsafeBytes(of: &storage) { unsafe $0.load(as: sockaddr_in6.self) })
    default:
      return nil
    }
  }
}
