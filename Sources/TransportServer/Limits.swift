internal import HTTP2
internal import NIOCore

/// The bounds of this module, each with the reason for its number.
enum Limits {
  /// How long a new connection may take to say what it speaks: the client preface or the first line of a request. As
  /// long as a TLS handshake may take, which comes before.
  static let prefaceTimeout = TimeAmount.seconds(5)

  /// How long a peer may take for its TLS handshake. Two round trips across the world and a slow phone's signature
  /// fit several times; a peer that sends a byte now and then does not.
  static let handshakeTimeout = TimeAmount.seconds(5)

  /// How long a peer may take to acknowledge our SETTINGS: RFC 9113 §6.5.3 leaves it to us; twice the preface.
  static let settingsTimeout = TimeAmount.seconds(10)

  /// How long one header block may take. It fits a few packets; slower is an attack that holds the connection.
  static let headerBlockTimeout = TimeAmount.seconds(5)

  /// How long the socket may refuse every byte before the connection is given up: several retransmissions.
  static let stalledWriteTimeout = TimeAmount.seconds(30)

  /// How long a connection is not read whose peer cancels more calls than it lets be answered. Others behind the same
  /// proxy wait as long, and hardly notice.
  static let overrunPause = TimeAmount.milliseconds(250)

  /// The longest that a connection is left unread after calls of it were refused because there is too much to do. A busy
  /// client sends a dozen calls in that time; refused together, each costs a third of what it costs alone. Whoever was refused
  /// is not to come back before twice as long.
  static let refusedPause = TimeAmount.milliseconds(250)

  /// How often it is looked at who is left unread.
  static let looksAtLine = TimeAmount.milliseconds(1)

  /// A connection goes to the line where its read brought more refused calls than this for each that was served.
  static let refusedForEachServed = 4

  /// How many are read again at a look because there is room, and of how many of those who came last: what they have sent is
  /// some calls for each, and there may be no room for those of one method.
  static let readFromLine = 4
  /// The same where the loop has rested for most of the time since the last look: asked for twice what it can do, a service had a
  /// tenth of its time left with fewer.
  static let readFromLineAtRest = 16
  static let placesSeen = 32

  /// How many are read again at a look because they have waited for long: two milliseconds' work, so that not all time goes
  /// to refusals where thousands wait. Those wait for longer then.
  static let pausesEnded = 32

  /// Reads in a row that are as late as the one before them when that took as many bytes as it might: what was sent in a pause,
  /// and some more. One that is late by itself begins the row anew. By TLS reads begin with a kilobyte and double, so that this
  /// is less there.
  static let fullReads = 3
  /// How long after such a read another one counts as what it left: the connection may be left unread in between.
  static let restOfRead = TimeAmount.milliseconds(500)

  /// What has to leave within that time where more waits: a frame of HTTP/2's usual size, which is half a kilobyte a
  /// second. A peer that takes less holds what waits for longer than any person would.
  static let stallProgress = 16 * 1024

  /// How long the last bytes after a GOAWAY may take. The peer has broken the rules: it gets no more patience.
  static let closingTimeout = TimeAmount.seconds(5)

  /// Calls of one connection whose handlers have not returned, counting those that the client has cancelled. Twice
  /// the concurrent streams: a cancelled handler ends soon, and a peer that only cancels gets no further.
  static let handlersPerConnection = 200

  /// Bytes of a request to a page over HTTP/1.1 or HTTP/2: a form of a few fields.
  static let pageBodyBytes = 64 * 1024

  /// Bytes of a request over HTTP/1.1 that its parser may have had and said nothing of: a head, or trailers, with what separates
  /// its fields, and the pieces in which they came.
  static let unparsedPageBytes = pageHeaderBytes + 2 * pageBytesBetweenLooks

  /// Bytes of a call's fields that count for nothing beside the call: those of a call without a token.
  static let uncountedFieldBytes = 512

  /// Bytes of a head over HTTP/1.1 that count only while they come.
  static let usualHeadBytes = 4096

  /// Bytes and number of the header fields of a request over HTTP/1.1: as many bytes as over HTTP/2, and more fields
  /// than a browser sends.
  static let pageHeaderBytes = 16 * 1024
  static let pageHeaderFields = 100

  /// How long a request over HTTP/1.1 may take to arrive, from its first byte or, for the first one, from the protocol's
  /// being known. It is small; one that drips is an attack that holds the connection.
  static let pageRequestTimeout = TimeAmount.seconds(10)

  /// How long a client of pages may be silent: browsers open spare connections, and keep them for their next click.
  static let pageIdleTimeout = TimeAmount.seconds(30)

  /// PING frames without any of our DATA or HEADERS in between that come too early, before the connection ends with
  /// `too_many_pings`. Source: gRPC A8.
  static let pingStrikes = 2

  /// How often a client may ping while it has no call open, and while it has. A8 says five minutes; less with open
  /// calls lets phones keep their watches through their carriers' tables, and browsers that ask after 58 seconds of silence.
  static let idlePingInterval = TimeAmount.minutes(5)
  static let busyPingInterval = TimeAmount.seconds(45)

  /// How long the client has to answer the PING between the two steps of a drain. A round trip across the world and
  /// a lost packet.
  static let drainRoundTrip = TimeAmount.seconds(1)

  /// Output capacity that a connection keeps for the next pass: the answers of a few short calls.
  static let keptOutputCapacity = 2 * 1024

  /// How often a peer with open streams is asked for a sign of life while it is silent, and how long it may take: a
  /// connection that a broken network left behind is gone after 80 seconds. Source: gRPC A9, which leaves the numbers to
  /// us; streams here are people waiting for a code to be scanned.
  static let keepaliveInterval = Duration.seconds(60)
  static let keepaliveTimeout = Duration.seconds(20)

  /// How long one message of a request may take to arrive, and what it may take beyond that for its size: a bad
  /// connection of a phone manages more than 16 KiB a second.
  static let messageTimeout = TimeAmount.seconds(10)
  static let messageBytesPerSecond = 16 * 1024

  /// DATA frames of few bytes that complete no message, in a burst and a second: libraries cut messages at 16 KiB, so a
  /// frame of a few bytes ends a message but for rare cuts.
  static let smallDataBytes = 64
  static let smallDataFrames = Budget.Rate(burst: 500, perSecond: 50)
  /// The same of one stream where a proxy carries many clients' streams.
  static let smallDataFramesOfStream = 500

  /// The part of what waits on a connection that each of those has who share it, when there is no room for more: a message of
  /// the usual size and its answer for some calls.
  static let partOfSharedConnection = 16

  /// Clients of a connection up to which it does not look who of them is gone.
  static let fewClients = 32

  /// Calls of one source that only ask for the server's health, up to which one more is let in whatever the load.
  static let essentialCalls = 8

  /// Calls of one client of a proxy that may be cancelled as soon as they are begun, in a burst and a second, and for how long
  /// its calls are refused after more than that. As for a connection that is one client's.
  static let cancellations = Budget.Rate(burst: 200, perSecond: 20)
  static let cancellationRest = TimeAmount.seconds(1)

  /// Clients of proxies of which this is known when no call of theirs is left.
  static let rememberedCancellers = 1024
  static let cancellersLookedAt = 8

  /// The change in what a connection holds that the server's budget is told of: small beside the budget, and large
  /// enough that a connection at work rarely has to.
  static let budgetStep = 16 * 1024

  /// The same for what is read and not worked on, and the least of it for which a connection is worth giving up.
  static let unworkedStep = 2 * 1024

  /// How often connections that do nothing are asked to go when the server is nearly full, and how long they must have
  /// done nothing: a client that called a moment ago may call again. Asking ten thousand takes some milliseconds, so that
  /// some are asked at a time.
  static let pressureInterval = TimeAmount.seconds(1)
  static let pressureIdleTime = TimeAmount.seconds(10)
  static let toldAtOnce = 32

  /// How often it is looked at who holds how much when there is no room, which part of all that is made free then, and
  /// how many of the largest sources and of their connections are asked: a look at twenty thousand sources takes some
  /// milliseconds, and asking a thousand connections one.
  static let shedInterval = TimeAmount.milliseconds(50)
  static let shedPart = 16
  static let shedSources = 100
  static let shedConnections = 1000

  /// Calls and bytes beyond the budget and a quarter of it, until what others gave up is free: of a small budget a quarter
  /// is what two clients ask for between two looks.
  static let callsAhead = 1000
  static let bytesAhead = 16 * 1024 * 1024

  /// Connections beyond the limit that are told so before they are closed, in a burst and a second, and how long they
  /// have to be told: a handshake across the world and a call. More of them at a time would be a larger limit.
  static let turnedAway = Budget.Rate(burst: 50, perSecond: 20)
  static let turnedAwayTime = TimeAmount.seconds(1)

  /// When the kernel asks a silent peer of HTTP/1.1 for a sign of life, how often and how many times: it is gone after
  /// 80 seconds, as long as HTTP/2's keepalive takes.
  static let tcpKeepaliveSeconds = 60
  static let tcpProbeSeconds = 10
  static let tcpProbes = 2

  /// How long a connection may keep its event loop to itself: hundreds of short calls, and less than anybody notices.
  static let turn = TimeAmount.microseconds(500)

  /// How long all connections together may work between two looks at the sockets before what can wait does so, their
  /// turns counted: two turns, so that a loop which only answers honest calls rarely comes to it.
  static let promptWork = TimeAmount.milliseconds(1)

  /// What is left of a turn when many connections have more to do than their turns allow: some calls, so that going
  /// from one to the next costs little beside them.
  static let shortestTurn = TimeAmount.microseconds(50)

  /// How long a source goes on with what it has, if it is short work: two of the shortest turns. The piece that it is at then
  /// is still done.
  static let sourceTurn = TimeAmount.microseconds(100)

  /// Connections that a proxy shares between its clients and that have a turn between those of two sources, at most: as many as
  /// carry a thousand requests, and little more than a millisecond.
  static let sharedTurns = 16

  /// How long the turns of those who wait for theirs may take together before the loop looks at its sockets.
  static let round = TimeAmount.microseconds(500)

  /// How long those may take in a round at most who go on with what is begun, and which part of it the others have in any case
  /// who come after them. Somebody's call that just came waits for all of that.
  static let longestGoingOn = TimeAmount.milliseconds(8)
  static let partOfGoingOn: Int64 = 4

  /// How much of a round chores have although the turns have taken all of it, lest they pile up, and newcomers as well: some
  /// closed connections, and one or two that are set up.
  static let chores = TimeAmount.microseconds(200)
  static let newcomers = TimeAmount.microseconds(100)

  /// Chores that wait when they have as much time as the turns: such as a thousand connections that end together.
  static let manyChores = 1000

  /// How long the loop waits for its sockets then, if they have nothing: long enough not to be over before it looks.
  static let roundPause = TimeAmount.microseconds(30)

  /// How long a call may wait while its event loop works for others before it is refused: a part of what its caller
  /// allows, since it waits so at each of several steps, and whoever is impatient hears soon that there is no time for
  /// it. With a twentieth, at ten times what a service can do, the slowest of what it served took two fifths longer; with less
  /// than a thirtieth it may serve less, since the storage's groups are larger where more waits. At least some hundred calls
  /// of an honest burst; at most what a burst takes of which somebody who waits for half a minute would rather see the end.
  static let partOfWait: Int64 = 30
  static let longestPatience = TimeAmount.milliseconds(750)
  static let shortestWait = TimeAmount.milliseconds(25)

  /// How long what is asked of a page may wait for its turn: many people leave after three seconds without an answer.
  static let pagePatience = patience(within: .seconds(3))

  /// How long a call may wait that may take so long.
  static func patience(within timeLimit: TimeAmount) -> TimeAmount {
    min(max(.nanoseconds(timeLimit.nanoseconds / partOfWait), shortestWait), longestPatience)
  }

  /// How many times longer something waits, of a source that has far less waiting than another, until it is refused. It has to
  /// wait for the turns of some hundred sources with much, which may take longer than a call's patience and not much longer.
  static let patienceOfLittle: Int64 = 4

  /// How long the loop works at most for others between going on with a socket and finding what waits in it: the longest round,
  /// and what is done in some looks.
  static let looksAfterHold = TimeAmount.milliseconds(15)

  /// What has waited for longer is refused also of a source that has little: not less than the longest patience.
  static let longestWait = TimeAmount.seconds(1)

  /// How many wait for their turns when a read has to do so as well, unless it is of few bytes. A frame is worked on as
  /// a whole, and one that is full of small messages takes longer than a short turn.
  static let crowd = 2
  static let promptBytes = 2 * 1024

  /// Passes that have to end within their turn before a connection counts as one that keeps to its turns.
  static let passesKept = 16

  /// Places for jobs that a connection keeps.
  static let keptJobs = 16

  /// Bytes of requests over HTTP/1.1 between two looks at the clock: some dozens of the shortest.
  static let pageBytesBetweenLooks = 1024

  /// Connections that the system keeps until they are accepted, if it keeps as many (net.core.somaxconn): what some 7,000 in a
  /// second bring in half a second. Who comes when there are more tries again after one.
  static let backlog: Int32 = 4096

  /// Bytes that the kernel keeps of a connection until they are read, of which it uses twice as many: a dozen full bursts of calls.
  /// Left to itself it lets a peer send ten megabytes ahead, and when the peer ends its side all of that is read at once.
  static let socketBytes: Int32 = 128 * 1024

  /// The pause in accepting when there is no room for another connection, such as no file descriptor: a tenth of a
  /// second's wait for those who come, and ten attempts a second.
  static let acceptPause = TimeAmount.milliseconds(100)
  /// How often it is said then that there is none.
  static let shortageLine = Duration.seconds(60)
  /// The files of this process that connections leave to everything else: databases, logs and what the system's libraries
  /// open for a moment.
  static let spareFiles = 160

  /// Connections that all sources together have on each loop that everybody uses before their parts become small, and those
  /// that each has there in any case: what a family or a small office has. The end of a hundred takes some two milliseconds.
  static let placesOfLoop = 256
  static let placesOfSource = 16

  /// How long who had more is a crowd after it has fewer, and how many crowds are looked at for one new connection, so that
  /// none waits for all that were there.
  static let crowdTime = TimeAmount.seconds(60)
  static let crowdsAtOnce = 16

  /// How long the listener waits for a place to wait in where all are taken: some connections are set up in that time.
  static let waitForPlace = TimeAmount.milliseconds(1)

  /// How long there must have been no stream before what a connection keeps for the next ones is freed, unless it is for
  /// so many at most as a client with a few calls at a time has. Whoever polls, every two seconds, comes back sooner.
  static let quietTime = TimeAmount.seconds(3)
  static let streamsKeptWhenQuiet = 4

  /// Streams that keep buffers for calls to come, which nobody counts: the calls that a usual client makes at once.
  static let streamsWithBuffers = 16

  /// The largest buffer for reading that a connection keeps: a client's preface with its settings, and some calls. Each
  /// connection has it, also one that does nothing.
  static let keptReadBytes = 1024

  /// Bytes that one read may take: a full burst of a connection's streams, and the largest TLS record.
  static let readBytes = 32 * 1024

  /// Such buffers that an event loop keeps. Mostly one is in use.
  static let spareReadBuffers = 4
}
