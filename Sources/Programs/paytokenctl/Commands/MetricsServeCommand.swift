import ArgumentParser
import CommandOutput
import DaemonAPI
import HTTPListener
import HostSystem
import NIOCore
import UnixSignals

struct MetricsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "metrics", abstract: "The daemon's or the gateway's metrics, for Prometheus.",
        subcommands: [MetricsServeCommand.self])
}

struct MetricsServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Serves the metrics over TCP to Prometheus, which cannot scrape Unix sockets.",
        discussion: """
            Serves GET /metrics and nothing else, until SIGTERM. Run it as a separate account, to which the daemon's \
            access section gives the role monitor and no other:

              access:
                - { name: metrics, user: paytokend-metrics, roles: [monitor] }

            and which can open the admin socket: listener.admin_mode: "0666" in paytokend.yaml, or SocketMode=0666 in \
            paytokend-admin.socket. The daemon still refuses peers without a rule. On the gateway's admin socket the \
            group of the socket (admin.group) has the role monitor; if the configuration has admin.access, give the \
            account a rule there. The units paytokend-metrics.service and paytoken-gateway-metrics.service do this.

              paytokenctl metrics serve --listen 127.0.0.1:9464
              paytokenctl metrics serve --listen 127.0.0.1:9465 \\
                  --socket /run/paytoken-gateway/admin.sock
              curl http://127.0.0.1:9464/metrics

            There is no TLS and no password: a program that can connect can read merchants' identifiers, keys' hashes \
            and the number of payments. So it listens on a loopback address, unless --allow-remote confirms that other \
            means keep others away.

            While the daemon is unavailable, each scrape gets 503 and the reason, and Prometheus' own metric up is 0.

            Exit status: 0 after SIGTERM or SIGINT; 64 wrong usage; 75 another program listens at the address; 78 the \
            address cannot be used.
            """)

    @Option(
        help: ArgumentHelp(
            "Where to listen: an IP address and a port, such as 127.0.0.1:9464 or [::1]:9464; port 0 is any.",
            valueName: "address:port"))
    var listen = "127.0.0.1:9464"

    @Flag(help: "Listens on an address that is not loopback, where other hosts can connect.")
    var allowRemote = false

    @OptionGroup var socket: AdminSocketOption

    func validate() throws {
        guard let address = NetworkAddress(listen) else {
            throw ValidationError("--listen takes an IP address and a port, such as 127.0.0.1:9464 or [::1]:9464.")
        }
        guard address.isLoopback || allowRemote else {
            throw ValidationError(
                "--listen: other hosts could connect to \(address.text), and there is no password. Listen on 127.0.0.1 or [::1], "
                    + "or use --allow-remote if a firewall or a proxy keeps others away.")
        }
    }

    func run() async throws {
        // The signals are trapped first, so that even an early signal ends the program cleanly.
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        guard let address = NetworkAddress(listen),
            let place = try? SocketAddress(ipAddress: address.ip, port: address.port)
        else { throw ExitCode(ExitStatus.usage.rawValue) }
        let log = ServingLog()
        defer { log.flush() }
        let path = socket.path
        let program = path == DaemonSocket.gatewayAdmin.defaultPath ? DaemonSocket.gatewayAdmin.program : "paytokend"
        let scrape = SharedScrape(socket: path, program: program, log: log)
        let listener: Listener
        do throws(ListenerError) {
            listener = try await MetricsConnections.listen(at: place, scrape: scrape, logger: log)
        } catch {
            if case .alreadyServed = error {
                throw CommandFailure(.tryAgainLater, "Another program listens at \(address.text) already.")
            }
            throw CommandFailure(.configuration, "\(address.text): \(error)")
        }
        let service = ServiceNotification(logger: log.logger)
        log.logger.notice(
            "serving metrics",
            metadata: ["address": "\((listener.networkAddresses.first ?? address).text)", "of": "\(path)"])
        service.notify(.ready)
        for await _ in signals { break }
        service.notify(.stopping)
        await listener.shutdown(grace: .seconds(5))
    }
}
