import ArgumentParser

struct DeviceCommandGroup: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "device",
    abstract: "The devices that you are signed in on.",
    examples: ["latchkey device"],
    subcommands: [
      DeviceListCommand.self, DeviceRenameCommand.self, DeviceRemoveCommand.self, DeviceRotateKeyCommand.self,
      DeviceResolveCloneCommand.self,
    ],
    defaultSubcommand: DeviceListCommand.self
  )
}
