import Glibc

/// Reads a line that the terminal does not show. A signal that ends the process meanwhile, such as Ctrl-C, finds the
/// terminal as it was before.
enum SilentTerminal {
  private static let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]

  /// What the terminal is set back to: memory that stays, so that a handler may read it whatever it interrupts. Written
  /// before the handlers are set, and by nothing else.
  nonisolated(unsafe) private static let before = {
    let before = UnsafeMutablePointer<termios>.allocate(capacity: 1)
    unsafe before.initialize(to: termios())
    return unsafe before
  }()

  /// Nil at the end of input.
  static func line() throws(CommandFailure) -> String? {
    // tcgetattr fills the struct and tcsetattr reads it; both keep nothing.
    guard unsafe tcgetattr(STDIN_FILENO, before) == 0 else { throw CommandFailure(.file, "cannot read the terminal") }
    var silent = unsafe before.pointee
    silent.c_lflag &= ~tcflag_t(ECHO)
    // Set first: a signal between the two lines sets back what has not changed yet.
    var handlers: [sighandler_t?] = []
    for number in signals { handlers.append(signal(number) { SilentTerminal.end(by: $0) }) }
    unsafe tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent)
    defer {
      unsafe tcsetattr(STDIN_FILENO, TCSAFLUSH, before)
      for (number, handler) in zip(signals, handlers) { signal(number, handler) }
      Output.warn("")
    }
    return readLine()
  }

  /// In a signal's handler, so by functions alone that are safe there (signal-safety(7)): sets the terminal back and
  /// dies of the signal, as the shell expects.
  private static func end(by number: Int32) {
    unsafe tcsetattr(STDIN_FILENO, TCSANOW, before)
    signal(number, SIG_DFL)
    raise(number)
  }
}
