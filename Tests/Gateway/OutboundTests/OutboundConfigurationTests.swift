import ConfigurationFile
import ServerProgram
import TestSupport
import Testing

@testable import Outbound

@Suite struct OutboundConfigurationTests {
    private func problems(_ text: String) throws -> [String] {
        let directory = try FreshDirectory()
        let path = try directory.write(text, to: "c.yaml")
        do throws(ConfigurationProblems) {
            _ = try OutboundConfiguration.load(path: path, environment: [:])
            return []
        } catch {
            return error.problems.map { "\($0.line.map(String.init) ?? "-") \($0.key): \($0.message)" }
        }
    }

    @Test("loads an empty section with Apple's host and the system's roots, and warns that it is untried")
    func minimum() throws {
        let directory = try FreshDirectory()
        let path = try directory.write("app_store_connect: {}\n", to: "c.yaml")
        let configuration = try OutboundConfiguration.load(path: path, environment: [:])
        #expect(configuration.appStoreConnect == AppStoreConnectSettings())
        #expect(configuration.paytokend.socket == "/run/paytokend/paytokend.sock")
        #expect(configuration.warnings.map(\.setting.rawValue) == ["untried_portal"])
    }

    @Test("accepts the sample as it is, with the same settings as an empty section")
    func sample() throws {
        let configuration = try OutboundConfiguration.load(
            path: ProjectFiles.path("hsm-config/paytoken-outbound.yaml"), environment: [:])
        #expect(configuration.appStoreConnect == AppStoreConnectSettings())
        #expect(configuration.warnings.map(\.setting.rawValue) == ["untried_portal"])
    }

    @Test(
        "reports a wrong value with its line",
        arguments: [
            ("app_store_connect: { proxy: \"http://user:a@b:1\" }", "1 app_store_connect.proxy: must be http://"),
            (
                "app_store_connect: { test_server: \"192.0.2.1:443\" }",
                "1 app_store_connect.test_server: must be a loopback"
            ),
            ("app_store_connect: { host: elsewhere.example }", "1 app_store_connect.host: unknown key"),
            ("app_store_connect: { trust: [nowhere.pem] }", "1 app_store_connect.trust[0]: "),
        ])
    func wrong(_ text: String, _ beginning: String) throws {
        let found = try problems(text + "\n")
        #expect(found.count == 1 && found.first?.hasPrefix(beginning) == true, "\(found)")
    }
}
