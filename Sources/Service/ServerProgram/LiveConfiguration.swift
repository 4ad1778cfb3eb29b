package import ConfigurationFile
import Foundation
package import HostSystem
import Locks
package import Logging
package import Telemetry

/// The contents of a program's configuration file.
package protocol ServerConfiguration: Sendable {
    /// The names of the file's sections.
    static var keys: [String] { get }
    /// Reads the file's root; nil after a reported problem. The warnings are added later.
    static func read(_ root: ConfigurationSection, _ text: String) -> Self?

    var log: LogSettings { get set }
    /// Settings that are allowed but weaken the service, or deserve attention for another reason.
    var warnings: [ConfigurationWarning] { get set }

    /// Compares the parts that only a restart can change with those of `new`. Each element has the name of a part's
    /// section, and true if the part is unchanged.
    func fixedParts(in new: Self) -> [(name: String, isUnchanged: Bool)]
    /// Copies the parts that can change while the program runs.
    mutating func applyReloadableParts(from new: Self)
}

extension ServerConfiguration {
    /// Reads and checks the whole file and the files that it names. Changes nothing.
    ///
    /// - Parameters:
    ///   - path: absolute, or relative to the working directory.
    ///   - environment: contains CREDENTIALS_DIRECTORY.
    /// - Throws: every problem that was found, in the order of the file.
    package static func load(
        path: String, environment: [String: String] = ProcessInfo.processInfo.environment, examinesPlaces: Bool = false
    ) throws(ConfigurationProblems) -> Self {
        var (configuration, warnings) = try ConfigurationReader.load(
            path: path, environment: environment, examinesPlaces: examinesPlaces, keys: keys, read)
        configuration.warnings = warnings
        return configuration
    }

    /// The names of the parts that differ in `new` but that only a restart can replace: sections, or `log.format`.
    package func partsForRestart(in new: Self) -> [String] {
        (fixedParts(in: new) + [("log.format", log.format == new.log.format)]).filter { !$0.isUnchanged }.map(\.name)
    }

    package static func loaded(from file: String, examinesPlaces: Bool = false) throws(StartFailure) -> Self {
        do throws(ConfigurationProblems) {
            return try load(path: file, examinesPlaces: examinesPlaces)
        } catch {
            throw StartFailure(.configuration, error.description)
        }
    }
}

/// The value in force. A request reads the value once and uses it until the request ends. A reload replaces the value
/// as a whole.
package final class Current<Value: Sendable>: Sendable {
    private let value: Mutex<Value>

    package init(_ value: Value) {
        self.value = Mutex(value)
    }

    package var current: Value { value.withLock { $0 } }

    package func replace(with new: Value) {
        value.withLock { $0 = new }
    }
}

extension Current where Value: ServerConfiguration {
    /// Copies the parts that can change while the program runs. Everything else stays as it was at the start.
    ///
    /// - Returns: the names of the parts that `new` changes but that only a restart can replace: sections, or
    ///   `log.format`. Their old values stay in force.
    package func applyReloadableParts(from new: Value) -> [String] {
        value.withLock { configuration in
            let parts = configuration.partsForRestart(in: new)
            configuration.applyReloadableParts(from: new)
            return parts
        }
    }
}

/// The means of a reload: the configuration's file, and the log that shows its result.
package struct ReloadSource: Sendable {
    package let file: String
    let log: StandardErrorLog
    let logger: Logger

    package init(file: String, log: StandardErrorLog, logger: Logger) {
        self.file = file
        self.log = log
        self.logger = logger
    }

    /// Reads the file again, has `reload` put its contents into force, and logs the result.
    ///
    /// - Parameter reload: returns the sections whose changes need a restart, and the warnings to log.
    package func apply<Configuration: ServerConfiguration>(
        _ reload: (Configuration) async throws(StartFailure) -> (pending: [String], warnings: [ConfigurationWarning])
    ) async throws(StartFailure) {
        do throws(StartFailure) {
            let configuration = try Configuration.loaded(from: file)
            let (pending, warnings) = try await reload(configuration)
            log.level = configuration.log.level
            logger.notice("configuration reloaded", metadata: ["file": "\(file)"])
            if !pending.isEmpty {
                logger.warning(
                    "these changed settings take effect only after a restart",
                    metadata: ["sections": "\(pending.joined(separator: ", "))"])
            }
            logger.warn(of: warnings)
        } catch {
            logger.error(
                "configuration not reloaded; the previous one stays in force",
                metadata: ["file": "\(file)", "reason": "\(error.message)"])
            throw error
        }
    }
}

/// A request to reload the configuration that does not come from SIGHUP.
package struct ReloadRequest: Sendable {
    /// Returns true if the file's contents are now in force, false if they were refused, and nil if nothing was to change.
    package let perform: @Sendable (ReloadSource) async -> Bool?

    package init(_ perform: @escaping @Sendable (ReloadSource) async -> Bool?) { self.perform = perform }
}

/// The parts of a program that a reload replaces, or that determine the status for the service manager.
package protocol ReloadableParts: Sendable {
    associatedtype Configuration: ServerConfiguration

    /// Puts into force the parts that may change, all of them or none. Open connections use the new parts from their
    /// next request on.
    ///
    /// - Returns: the sections whose changes need a restart, and the warnings to log.
    func reload(
        with new: Configuration
    ) async throws(StartFailure) -> (pending: [String], warnings: [ConfigurationWarning])
    /// The requests for reloads other than SIGHUP. The program carries out one reload at a time. Only one task may iterate
    /// the stream.
    var reloadRequests: AsyncStream<ReloadRequest> { get }
    /// Called after a refused reload at SIGHUP; the previous configuration stays in force.
    func reloadRefused() async
    /// Returns the text that `systemctl status` shows.
    func status(of service: ServiceNotification) -> ServiceStatus
}

extension ReloadableParts {
    package var reloadRequests: AsyncStream<ReloadRequest> { AsyncStream { $0.finish() } }

    /// Reads the file again, after SIGHUP.
    ///
    /// - Returns: true if the file's contents are now in force.
    @discardableResult
    package func reload(from file: String, log: StandardErrorLog, logger: Logger) async -> Bool {
        do throws(StartFailure) {
            try await ReloadSource(file: file, log: log, logger: logger).apply {
                (new: Configuration) async throws(StartFailure) in try await reload(with: new)
            }
            return true
        } catch {
            await reloadRefused()
            return false
        }
    }
}

extension Logger {
    func warn(of warnings: [ConfigurationWarning]) {
        for found in warnings {
            warning("\(found.headline)", metadata: ["place": "\(found.place)", "reason": "\(found.message)"])
        }
    }
}
