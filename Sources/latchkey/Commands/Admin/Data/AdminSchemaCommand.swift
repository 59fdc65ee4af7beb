import ArgumentParser
import JSON
import Storage
import StoragePostgreSQL

struct AdminSchemaCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "schema",
    abstract: "The services' tables in PostgreSQL: look at them, and bring them forward for this release.",
    discussion: """
      A release brings its tables forward in numbered steps. Those that expand add what older releases can work beside: \
      make them before you start the new release. Those that contract take away what no release needs any more; make them \
      when no instance of an older one runs, and you will not go back to it.
      """,
    examples: ["latchkey admin schema status --to $DATABASE --database-password-file database-password"],
    subcommands: [AdminSchemaStatusCommand.self, AdminSchemaApplyCommand.self]
  )
}

struct AdminSchemaStatusCommand: StorageCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Which steps are made, who uses the tables, and whether this release works on them.",
    discussion: "Changes nothing. Ends with 1 where this release does not work on the tables as they are.",
    examples: ["latchkey admin schema status --to $DATABASE --database-password-file database-password"]
  )

  @OptionGroup var options: SchemaOptions

  var json: Bool { options.json }

  func run(_ output: Output) async throws {
    let states = try await options.states()
    SchemaReport(states).show(output)
    if !states.allSatisfy(\.state.isUsable) { throw ExitCode(CommandFailure.Status.refused.rawValue) }
  }
}

struct AdminSchemaApplyCommand: StorageCommand {
  static let configuration = CommandConfiguration(
    commandName: "apply",
    abstract: "Make the steps that this release needs.",
    discussion: """
      Services may go on meanwhile. Ended at any moment, and started again, it goes on where it was. One at a time does it. \
      No step waits for a table for longer than two seconds, since everybody else waits behind it; one that got none is \
      tried again until nothing has moved on for --patience, and who is in the way is said.
      """,
    examples: [
      "latchkey admin schema apply --to $DATABASE --database-password-file database-password",
      "latchkey admin schema apply --contract --to $DATABASE --database-password-file database-password",
    ]
  )

  @OptionGroup var options: SchemaOptions

  @Flag(
    help: """
      Also take away what only older releases need. Refused while an instance of one lives; afterwards none can start.
      """)
  var contract = false

  @Option(help: ArgumentHelp("Seconds after which it is given up while nothing moves on.", valueName: "seconds"))
  var patience = 60

  var json: Bool { options.json }

  func validate() throws {
    guard (1...86_400).contains(patience) else { throw ValidationError("--patience must be 1 to 86400") }
  }

  func run(_ output: Output) async throws {
    let url = try options.database.url()
    for service in options.services {
      var work = PostgreSQLSchemaWork(url: url, schema: service.sharedSchema)
      work.patience.standstill = .seconds(patience)
      do {
        try await work.apply(contracting: contract) { Self.tell($0, of: service, output) }
      } catch {
        throw Self.failure(error, of: service)
      }
    }
    SchemaReport(try await options.states()).show(output)
  }

  private static func tell(_ news: SchemaNews, of service: StoredService, _ output: Output) {
    let schema = service.sharedSchema.part
    switch news {
    case .began(let step, let name): output.progress("\(schema): step \(step), \(name) …")
    case .came(let step, let place): output.progress("\(schema): step \(step), up to \(place)")
    case .finished: break
    case .waits(let step, let holders):
      let what = step.map { "step \($0)" } ?? "its turn"
      Output.warn("\(schema): \(what) waits for \(holders.isEmpty ? "others" : holders.joined(separator: "; "))")
    }
  }

  private static func failure(_ error: StorageError, of service: StoredService) -> CommandFailure {
    switch error.fault {
    case .forbidden:
      CommandFailure(
        .refused, error.description,
        hint: "the database's owner can: name that user in --to, or grant CREATE on the database or the schema")
    case .oldInstances:
      CommandFailure(
        .refused, error.description, hint: "end them, or let the step be: `admin schema apply` without --contract")
    case .overloaded:
      CommandFailure(.unavailable, error.description, hint: "what was made stays; try again when that has ended")
    default: CommandFailure(storage: error)
    }
  }
}

struct SchemaOptions: ParsableArguments {
  @OptionGroup var database: DatabaseOption

  @Option(help: ArgumentHelp("Only this service's, such as qr; may be said several times.", valueName: "name"))
  var service: [StoredService] = []

  @Flag(help: "Answer in JSON, for scripts.")
  var json = false

  @OptionGroup var color: ColorOption

  var services: [StoredService] { service.isEmpty ? StoredService.allCases : service }

  func states() async throws -> [(service: StoredService, state: SchemaState)] {
    let url = try database.url()
    var states: [(service: StoredService, state: SchemaState)] = []
    for service in services {
      states.append((service, try await PostgreSQLSchemaWork(url: url, schema: service.sharedSchema).state()))
    }
    return states
  }
}

struct DatabaseOption: ParsableArguments {
  @Option(help: ArgumentHelp("The database, such as postgresql://USER@HOST/DATABASE.", valueName: "url"))
  var to: String

  @Option(help: ArgumentHelp("A file with the password for it.", valueName: "file"))
  var databasePasswordFile: String?

  func url() throws -> PostgreSQLURL { try PostgreSQLURL(to, of: "--to", passwordFile: databasePasswordFile) }
}

/// What `status` shows, and `apply` at its end.
struct SchemaReport {
  private let states: [(service: StoredService, state: SchemaState)]

  init(_ states: [(service: StoredService, state: SchemaState)]) {
    self.states = states
  }

  func show(_ output: Output) {
    let steps = Output.table(["schema", "step", "kind", "what it does", "state"], states.flatMap { rows($0.state) })
    let users = states.flatMap { service, state in
      state.users.map { [service.rawValue, "\($0.instance)", $0.address, "\($0.knows)"] }
    }
    let live = Output.table(["service", "instance", "address", "knows step"], users, nothing: "No instance lives.")
    output.result(
      "\(steps)\n\(live)\n\(verdict)",
      .object([
        JSONValue.Member("usable", .bool(states.allSatisfy(\.state.isUsable))),
        JSONValue.Member("schemas", .array(states.map { document($0.service, $0.state) })),
      ]))
  }

  private func rows(_ state: SchemaState) -> [[String]] {
    let part = state.schema.part
    var rows = state.records.map { record in
      let known = record.number <= state.schema.latest
      let kind = record.needs > 0 ? SchemaStep.Kind.contract : .expand
      let name = known ? record.name : "\(record.name) (of a newer release)"
      return (record.number, [part, "\(record.number)", kind.rawValue, name, progress(record)])
    }
    let recorded = Set(state.records.map(\.number))
    for (index, step) in state.schema.steps.enumerated() where !recorded.contains(index + 1) {
      let waiting = step.kind == .contract ? "not made: --contract" : "missing"
      rows.append((index + 1, [part, "\(index + 1)", step.kind.rawValue, step.name, waiting]))
    }
    return rows.sorted { $0.0 < $1.0 }.map(\.1)
  }

  private func progress(_ record: SchemaState.Record) -> String {
    if let end = record.finishedAt { return "made \(RFC3339.text(end.millisecondsSinceEpoch / 1000 * 1000))" }
    return "under way\(record.place.map { ", up to \($0)" } ?? "")"
  }

  private var verdict: String {
    let lines = states.compactMap { _, state -> String? in
      let part = state.schema.part
      if state.isTooNew {
        return """
          This release does not work on \(part): it takes one that knows step \(state.floor), and this one knows \
          \(state.schema.latest).
          """
      }
      if let step = state.missing.last {
        return "This release does not work on \(part) before step \(step) is made: latchkey admin schema apply"
      }
      return nil
    }
    return lines.isEmpty ? "This release works on them as they are." : lines.joined(separator: "\n")
  }

  private func document(_ service: StoredService, _ state: SchemaState) -> JSONValue {
    let records = state.records.map { record -> JSONValue in
      [
        "step": .integer(Int64(record.number)), "name": .string(record.name), "needs": .integer(Int64(record.needs)),
        "began_at": .string(RFC3339.text(record.beganAt.millisecondsSinceEpoch)),
        "finished_at": record.finishedAt.map { .string(RFC3339.text($0.millisecondsSinceEpoch)) } ?? .null,
        "place": record.place.map { .string($0) } ?? .null,
      ]
    }
    let users = state.users.map { user -> JSONValue in
      [
        "instance": .integer(Int64(user.instance)), "address": .string(user.address),
        "knows": .integer(Int64(user.knows)),
      ]
    }
    return .object([
      JSONValue.Member("service", .string(service.rawValue)),
      JSONValue.Member("schema", .string(state.schema.part)),
      JSONValue.Member("known", .integer(Int64(state.schema.latest))),
      JSONValue.Member("needed", .integer(Int64(state.floor))),
      JSONValue.Member("usable", .bool(state.isUsable)),
      JSONValue.Member("missing", .array(state.missing.map { .integer(Int64($0)) })),
      JSONValue.Member("contractions", .array(state.contractions.map { .integer(Int64($0)) })),
      JSONValue.Member("steps", .array(records)),
      JSONValue.Member("instances", .array(users)),
    ])
  }
}
