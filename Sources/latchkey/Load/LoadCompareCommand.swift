import ArgumentParser
import Cryptography
import LoadTest

struct LoadCompareCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "compare",
    abstract: "Set two results of load tests side by side.",
    discussion: """
      The results are files that latchkey load --json wrote. What was asked for or run on differently is named below \
      the figures.
      """,
    examples: ["latchkey load compare before.json after.json"]
  )

  @Argument(help: "The result to compare with.") var before: String
  @Argument(help: "The result to judge.") var after: String
  @OptionGroup var color: ColorOption

  func run() async throws {
    do throws(CommandFailure) {
      let comparison: LoadComparison
      do throws(LoadComparison.Unreadable) {
        comparison = try LoadComparison(before: try Self.result(before), after: try Self.result(after))
      } catch {
        throw CommandFailure(.invalid, error.description)
      }
      Output(json: false, fault: LoadCommand.faultStatus).progress(comparison.text())
    } catch {
      Output(json: false).failure(error)
      throw ExitCode(LoadCommand.faultStatus)
    }
  }

  private static func result(_ path: String) throws(LoadComparison.Unreadable) -> JSONValue {
    do {
      var file = try InputFile(path)
      return try JSONValue(parsing: try file.contents())
    } catch let failure as CommandFailure {
      throw LoadComparison.Unreadable(description: failure.message)
    } catch {
      throw LoadComparison.Unreadable(description: "\(path): \(error)")
    }
  }
}
