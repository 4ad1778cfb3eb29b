import DaemonAPI
import HostSystem
import TestSupport
import Testing

@testable import Daemon

/// The daemon's text in `systemctl status`.
@Suite("Service status")
struct ServiceStatusTests {
    private let directory: FreshDirectory
    private let heard: NotifySocket
    private let findings = Shared(Readiness.Findings())
    private let status: ServiceStatus

    init() throws {
        directory = try FreshDirectory()
        heard = try NotifySocket(path: directory.path("notify"))
        let service = ServiceNotification(
            environment: ["NOTIFY_SOCKET": directory.path("notify")], logger: ListenerFixture.quiet)
        status = ServiceStatus(service: service, findings: { [findings] in findings.current }, servedKeys: { 2 })
    }

    @Test("names each missing part, and sends the text again only after a change")
    func sendsChangesOnly() async {
        findings.change {
            $0.reasons = [
                .init(component: "token primary", code: "hsm_unavailable", message: "The worker is starting."),
                .init(component: "ledger", code: "ledger_unavailable", message: "The disk is full."),
            ]
        }
        await status.show()
        await status.show()
        #expect(
            heard.next()
                == "STATUS=Not ready. token primary: The worker is starting. ledger: The disk is full.")
        #expect(heard.next() == nil)
        findings.change { $0 = .init(warnings: ["HSM token second serves no key; the others serve every key: Away."]) }
        await status.show()
        #expect(
            heard.next()
                == "STATUS=Serving payments for 2 keys. HSM token second serves no key; the others serve every key: Away."
        )
    }

    @Test("checks the program even if no service manager listens")
    func noServiceManager() async throws {
        let checks = Shared(0)
        let service = ServiceNotification(environment: [:], logger: ListenerFixture.quiet)
        let status = ServiceStatus(service: service) {
            checks.increment()
            return ServiceStatus.Condition(sentences: [])
        }
        let checking = status.start()
        try await wait(for: "a check") { checks.current > 0 }
        checking.cancel()
    }

    @Test("shows a refused reload until one succeeds")
    func refusedReloadShown() async throws {
        func next() async throws -> String? {
            var line: String?
            try await wait(for: "a status") {
                line = heard.next()
                return line != nil
            }
            return line
        }
        status.reloaded(inForce: false)
        #expect(try await next()?.contains("The last reload was refused") == true)
        status.reloaded(inForce: true)
        #expect(try await next() == "STATUS=Serving payments for 2 keys.")
    }

    @Test("keeps a message from beginning an assignment, and truncates a long message between two characters")
    func hostileText() async {
        findings.change {
            $0.reasons = [
                .init(
                    component: "token a", code: "hsm_unavailable", message: "No.\nWATCHDOG=1\r\nFDSTORE=1\u{0}\u{85}.")
            ]
        }
        await status.show()
        #expect(heard.next() == "STATUS=Not ready. token a: No. WATCHDOG=1  FDSTORE=1  .")
        findings.change {
            $0.reasons = [.init(component: "t", code: "hsm_unavailable", message: String(repeating: "ä", count: 500))]
        }
        await status.show()
        let line = heard.next() ?? ""
        // The text may have 400 bytes. Without the 14 bytes of "Not ready. t: " and the three of "…", there is room for
        // 191 letters of two bytes.
        #expect(line == "STATUS=Not ready. t: " + String(repeating: "ä", count: 191) + "…")
    }
}
