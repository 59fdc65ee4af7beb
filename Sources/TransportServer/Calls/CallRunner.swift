internal import Callers
internal import GRPC
internal import NIOCore

/// One call on the server, whatever carries it: takes the request, asks the interceptors, runs the route's handler in a
/// task, parks it, and hands frames and status to its carrier. `CallState` says what comes when; this does it.
///
/// Kept by its carrier for the next call, once this one is over and its handler has returned.
final class CallRunner: CallWaker.Target, @unchecked Sendable {
  // Unchecked: only touched on its event loop, which is also the executor that its task prefers.

  /// What a header block asks of a call.
  struct Request {
    var head: RequestHead
    var route: RPCRoute
    /// What the client allows.
    var timeout: Duration?
    /// Who asks, and what its source holds.
    var peer: Peer
    var account: SourceAccount
    /// Shut by what its handler needs while too much waits for that; nil where nobody asks it.
    var gate: CallGate?

    var isShut: Bool { gate?.isShut(to: account.source) ?? false }
    /// How long ago the header block was complete.
    var late = TimeAmount.zero
  }

  /// What the route sees.
  let call = ServerCall()
  private let environment: ServerEnvironment
  private let eventLoop: any EventLoop
  /// Another one only between calls, on the same event loop.
  var executor: EventLoopTaskExecutor
  /// Held while a call is on: its handler may outlive the connection.
  private var carrier: (any CallCarrier)?
  private var state = CallState()
  private var framer = MessageFramer()
  private var request: Request?
  private var task: Task<Void, Never>?
  private var share = CallShare()
  private var started = ContinuousClock.Instant.now
  /// When the call has to be over.
  private var deadline: NIODeadline?
  private var hasInterceptedCall = false
  /// Messages of the request that were complete.
  private(set) var messages = 0
  /// Tells calls apart, for what comes late from other threads.
  private var generation = 0

  init(environment: ServerEnvironment, executor: EventLoopTaskExecutor) {
    self.environment = environment
    self.executor = executor
    eventLoop = executor.eventLoop
  }

  var isOver: Bool { state.isOver }
  var isHandlerRunning: Bool { state.isHandlerRunning }
  var isTakingBytes: Bool { state.isTakingBytes }
  /// Whether the one request of a client that does not stream is not whole.
  var isReceiving: Bool { if case .receiving = state.phase { true } else { false } }

  /// Whether the client sends a stream of messages.
  var hasInbox: Bool { call.inbox != nil }

  /// Messages of a client's stream that their reader has not taken.
  var unreadMessages: Int { call.inbox?.waiting ?? 0 }

  /// Nothing of a message is missing.
  var isBetweenMessages: Bool { framer.isBetweenMessages }

  /// What has come of a message that is not whole.
  var partialBytes: Int { framer.partialBytes }

  /// The bytes of the message that is being received.
  var currentLength: Int { framer.currentLength }

  /// Whether the call is let in whatever the load.
  var isEssential: Bool { request?.route.isEssential ?? false }

  /// Whose call waits here; nil while it has not had to, or is over.
  var waitingAccount: SourceAccount? { state.isOver ? nil : share.account }

  // MARK: The request

  /// Takes a call. Interceptors see it now; its handler runs when its request is whole, or with the first message of a client
  /// that streams: who opens a stream and says nothing costs no task.
  func begin(_ request: Request, carriedBy carrier: any CallCarrier) {
    self.request = request
    self.carrier = carrier
    state.begin(streams: request.route.method.kind.hasRequestStream)
    started = ContinuousClock.now - .nanoseconds(request.late.nanoseconds)
    let route = request.route
    framer.reset(limit: route.messageLimit)
    framer.coding = request.head.requestCoding
    let limit = route.timeLimit ?? environment.configuration.timeLimit(route.method.kind)
    var instant: ContinuousClock.Instant?
    if let time = request.timeout.map({ min($0, limit ?? $0) }) ?? limit {
      instant = started + time
      deadline = carrier.now - request.late + TimeAmount(time)
      carrier.callEnds(at: deadline)
    }
    let context = ServerContext(
      method: route.method,
      fields: request.head.fields,
      deadline: instant,
      peer: request.peer,
      acceptedCoding: request.head.acceptedCoding,
      compressesResponses: environment.configuration.compressesResponses
    )
    call.context = context
    // Whatever the load, but a few at a time.
    let isLetIn = route.isEssential && request.account.essentialCalls.load(ordering: .relaxed) < Limits.essentialCalls
    guard isLetIn || (carrier.hasRoom && !request.isShut && !request.account.rests) else {
      environment.interceptors.didRefuse(1, of: route.method, status: .resourceExhausted)
      return end(environment.budget.refusal())
    }
    hasInterceptedCall = true
    do throws(RPCError) {
      try environment.interceptors.willHandle(context)
    } catch {
      return end(error)
    }
    makeStreams(route)
    // For its request, if for nothing else.
    waits()
  }

  /// Takes a request that no route is found for.
  func refuse(_ error: RPCError, carriedBy carrier: any CallCarrier) {
    self.carrier = carrier
    state.begin()
    end(error)
  }

  /// Takes a call that failed on the direct way, where interceptors have let it pass.
  func fail(
    _ error: RPCError, _ method: RPCMethod, _ head: RequestHead, _ peer: Peer, carriedBy carrier: any CallCarrier
  ) {
    self.carrier = carrier
    state.begin()
    started = .now
    call.context = ServerContext(method: method, fields: head.fields, deadline: nil, peer: peer)
    hasInterceptedCall = true
    end(error)
  }

  private func makeStreams(_ route: RPCRoute) {
    let generation = generation
    switch route.method.kind {
    case .unary, .serverStreaming: break
    case .clientStreaming, .bidirectional:
      call.inbox = MessageInbox(
        messageLimit: route.messageLimit,
        pause: { [executor] in await executor.nextTurn() },
        consumed: { [self] _ in
          eventLoop.runNow { if self.generation == generation { self.carrier?.callTookMessages() } }
        }
      )
    }
    switch route.method.kind {
    case .unary, .clientStreaming: break
    case .serverStreaming, .bidirectional:
      call.outbox = MessageOutbox(canPark: true) { [self] in
        eventLoop.runNow { if self.generation == generation { self.sendWaiting() } }
      }
    }
  }

  /// Takes bytes of the request. False when the call ended by them.
  func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
    do throws(RPCError) {
      // The pointer is read before `receive` returns.
      if call.inbox == nil {
        unsafe try framer.receive(bytes) { message throws(RPCError) in try take(&message) }
      } else {
        unsafe try framer.receive(
          bytes,
          deliverRun: { run, count throws(RPCError) in unsafe try take(run, count) },
          deliver: { message throws(RPCError) in try take(&message) }
        )
        if state.phase == .opened, messages > 0 { run() }
      }
      return true
    } catch {
      end(error)
      return false
    }
  }

  /// Takes a run of messages of a client's stream.
  private func take(_ run: UnsafeRawBufferPointer, _ count: Int) throws(RPCError) {
    messages += count
    switch state.received() {
    case .fail(let violation): throw violation.error
    // Copied before the call returns.
    case .deliver: unsafe call.inbox?.deliver(run, count: count)
    // What streams runs from its beginning.
    case .ignore, .keep: break
    }
  }

  private func take(_ message: inout ReceivedMessage) throws(RPCError) {
    messages += 1
    switch state.received() {
    case .fail(let violation): throw violation.error
    case .ignore: break
    case .deliver:
      call.inbox?.deliver(message)
      message.bytes = ByteBuffer()
    case .keep where message.isCompressed:
      call.request = try message.expanded(limit: request?.route.messageLimit ?? 0)
      call.context?.wasRequestCompressed = true
      // What came was a small part of it.
      carrier?.callKeeps(call.request.readableBytes)
    case .keep: swap(&call.request, &message.bytes)
    }
  }

  /// The request is whole.
  func receivedEnd() {
    switch state.ended(isBetweenMessages: framer.isBetweenMessages) {
    case .run: run()
    case .finishMessages:
      call.inbox?.finish()
      if state.phase == .opened { run() }
    case .fail(let violation): end(violation.error)
    case .ignore: break
    }
  }

  /// Forgets what was received: nobody reads it again.
  func dropRequest() {
    call.request = ByteBuffer()
    framer = MessageFramer()
  }

  // MARK: The handler

  private func run() {
    guard let request, let carrier else { return }
    if let deadline, deadline <= carrier.now { return end(RPCError(.deadlineExceeded, "the deadline passed")) }
    state.run()
    start { [call] () async throws(RPCError) in try await request.route.run(call) }
  }

  private func start(_ work: @escaping @Sendable () async throws(RPCError) -> Void) {
    let deadline = call.context?.deadline
    let place = request.map { CallPlace(gate: $0.gate, holder: $0.account.source) }
    let task = Task.immediate(executorPreference: executor) { [self] in
      let failure = await CallDeadline.$current.withValue(deadline) {
        await CallPlace.$current.withValue(place) { () async -> RPCError? in
          do throws(RPCError) {
            try await work()
            return nil
          } catch {
            return error
          }
        }
      }
      returned(failure)
    }
    guard state.isHandlerRunning else { return }
    // A write that failed within the task has ended the call before the task was known.
    guard !state.isOver else { return task.cancel() }
    self.task = task
    waits()
  }

  private func returned(_ failure: RPCError?) {
    task = nil
    sendWaiting()
    let parked = failure == nil ? call.outbox?.parked : nil
    switch state.returned(parks: parked != nil) {
    case .park: if let parked { park(parked) }
    case .answer:
      finish(failure)
      carrier?.handlerReturned()
    case .ignore:
      share.giveBack(to: environment.budget)
      carrier?.handlerReturned()
    }
  }

  /// The call waits, and keeps little meanwhile.
  private func park(_ parked: any ParkedCall) {
    dropRequest()
    carrier?.callKeepsLittle()
    waits()
    if !parked.park(CallWaker(self, number: generation)) { wake(generation) }
  }

  /// Of `CallWaker.Target`. Never runs the turn at once: whoever wakes may be within another call.
  func wake(_ number: Int) {
    eventLoop.execute {
      guard self.generation == number, let outbox = self.call.outbox, let parked = outbox.parked, self.state.woken()
      else {
        return
      }
      self.start { () async throws(RPCError) in
        parked.unpark()
        if try await parked.turn() { outbox.endParking() }
      }
    }
  }

  private func waits() {
    if let request { share.take(of: environment.budget, for: request.account, isEssential: request.route.isEssential) }
  }

  // MARK: The end

  /// Ends the call with an error: it is refused, late or shed, or nobody waits for it. Does nothing once it is over.
  func end(_ error: RPCError) {
    guard !state.isOver else { return }
    call.outbox?.parked?.unpark()
    finish(error)
    call.context?.cancel()
    call.inbox?.finish(error)
    call.outbox?.close(error)
    task?.cancel()
    task = nil
    if !state.isHandlerRunning { carrier?.handlerReturned() }
  }

  /// The client is gone.
  func abandon() {
    guard state.isOver else { return end(RPCError(.cancelled, "the client cancelled the call")) }
    task?.cancel()
  }

  /// Moves what the handler wrote to the carrier.
  private func sendWaiting() {
    guard state.phase == .running, let outbox = call.outbox else { return }
    let frames = outbox.take()
    if !frames.isEmpty { carrier?.send(frames) }
  }

  /// Nil is OK, with the answer that the handler left.
  private func finish(_ failure: RPCError?) {
    sendWaiting()
    // A write that fails may end the call within it.
    guard state.end() else { return }
    deadline = nil
    carrier?.callEnds(at: nil)
    if hasInterceptedCall, let context = call.context, !environment.interceptors.isEmpty {
      let duration = started.duration(to: .now)
      environment.interceptors.didFinish(context, status: failure?.code ?? .ok, duration: duration)
    }
    carrier?.send(failure, of: call)
    // What a late writer adds has nowhere to go.
    call.outbox?.close(failure ?? RPCError(.cancelled, "the call is over"))
    // Whoever leaves the answer where it is takes no call's place: its bytes count.
    if !state.isHandlerRunning { share.giveBack(to: environment.budget) }
  }

  /// Gives back what the call had. Only when it is over and its handler has returned.
  ///
  /// - Parameter keepsBuffers: whether the next call is to have the memory of a usual message from the beginning.
  func release(keepsBuffers: Bool = true) {
    generation += 1
    if !keepsBuffers {
      dropRequest()
      call.answer = ByteBuffer()
    }
    share.giveBack(to: environment.budget)
    // The parked call knows the outbox, and the outbox it.
    call.outbox?.endParking()
    call.reset()
    framer.reset(limit: 0)
    request = nil
    hasInterceptedCall = false
    messages = 0
    carrier = nil
  }
}

/// Where a call's request comes from and its answer goes: a stream of HTTP/2, or a body of gRPC-Web. On one event loop.
protocol CallCarrier: AnyObject {
  /// The time of the current pass.
  var now: NIODeadline { get }

  /// Whether there is room for a call that is not answered at once.
  var hasRoom: Bool { get }

  /// When the call has to be over; the carrier ends it then. Nil: that does not matter any more.
  func callEnds(at end: NIODeadline?)

  /// The reader of a client's stream has taken messages.
  func callTookMessages()

  /// So many bytes of the request are kept besides those that came.
  func callKeeps(_ bytes: Int)

  /// The call waits without its request.
  func callKeepsLittle()

  /// Frames of a stream of responses.
  func send(_ frames: [ByteBuffer])

  /// The status, and before it the answer of a call that went well.
  func send(_ failure: RPCError?, of call: ServerCall)

  /// Nothing of a call runs any more that is over, perhaps for long.
  func handlerReturned()
}
