import Foundation
import TestSupport
import Testing

@testable import ConfigurationFile
@testable import DaemonConfiguration

/// A configuration file in its own directory, with the files that it names.
struct ConfigurationFixture {
    let directory: FreshDirectory

    init() throws {
        directory = try FreshDirectory()
        try directory.write("1234\n", to: "pin")
        try directory.write("library", to: "module.so")
    }

    /// The shortest configuration that loads, on lines 1 to 5.
    static let minimum = """
        tokens:
          - name: primary
            module: module.so
            uri: "pkcs11:token=paytokend"
            pin_file: pin

        """

    func load(_ text: String, environment: [String: String] = [:]) throws(ConfigurationProblems) -> Configuration {
        do {
            try directory.write(text, to: "c.yaml")
        } catch {
            throw ConfigurationProblems(problems: [])
        }
        return try Configuration.load(path: directory.path("c.yaml"), environment: environment)
    }

    /// Returns the problems of the file, each as `LINE KEY: message`.
    func problems(_ text: String, environment: [String: String] = [:]) -> [String] {
        do throws(ConfigurationProblems) {
            _ = try load(text, environment: environment)
            return []
        } catch {
            return error.problems.map { "\($0.line.map(String.init) ?? "-") \($0.key): \($0.message)" }
        }
    }

    /// Returns the only problem of the minimum configuration followed by `section`, which begins on line 6.
    func problem(_ section: String) throws -> String {
        let problems = problems(Self.minimum + section)
        try #require(problems.count == 1, "\(problems)")
        return problems[0]
    }
}
