import ArgumentParser
import CommandOutput
import Foundation

struct PaymentsSocketOption: ParsableArguments {
    @Option(
        help: ArgumentHelp("The daemon's socket; default PAYTOKEND_SOCKET.", valueName: "path"), completion: .file())
    var socket: String?

    var connection: DaemonConnection { DaemonConnection(.payments, option: socket) }
}

struct AdminSocketOption: ParsableArguments {
    @Option(
        help: ArgumentHelp("The daemon's admin socket; default PAYTOKEND_ADMIN_SOCKET.", valueName: "path"),
        completion: .file())
    var socket: String?

    var connection: DaemonConnection { DaemonConnection(.admin, option: socket) }
    var path: String { DaemonSocket.admin.path(option: socket, environment: ProcessInfo.processInfo.environment) }
}
