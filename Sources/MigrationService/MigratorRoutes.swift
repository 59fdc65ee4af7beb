import GRPC
import LatchkeyProtos

/// Everything that the migrator answers besides health.
package enum MigratorRoutes {
  package static func all(_ core: MigrationCore) -> [RPCRoute] {
    let records = MigrationV1.recordServiceRoutes(RecordHandlers(core)).map { route in
      var route = route
      if route.method == MigrationV1.RecordServiceMethod.putRecords.rpc {
        route.messageLimit = Limits.putMessageBytes
      }
      return route
    }
    return MigrationV1.migrationServiceRoutes(MigrationHandlers(core)) + records
  }
}
