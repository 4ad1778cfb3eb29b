import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Attempts of one account, or of one person with two accounts, to act as the second person.
@Suite(.enabled(Staff.needsRoot) { try await Staff.canAct() })
struct OneAccountTests {
    @Test(
        "counts an account as one person even if its processes choose different login uids",
        .enabled("run it where a process can set its login uid, outside a container") {
            try await Staff.canAssumeLogin()
        })
    func assumedLogins() async throws {
        let daemon = try await StaffedDaemon()
        let merchant = try await daemon.merchant("assumed")
        #expect(try await daemon.run(.alice, "key", "suspend", merchant.hex, "--reason", "r").status == 0)
        let asked = try await daemon.run(.alice, assuming: 5555, "key", "resume", merchant.hex, "--reason", "r")
        #expect(asked.status == 75, "\(asked)")
        let approval = try #require(asked.error.split(whereSeparator: \.isWhitespace).last.map(String.init))
        for login: UInt32 in [6666, Staff.bob.rawValue] {
            let alone = try await daemon.run(.alice, assuming: login, "approval", "approve", approval)
            #expect(alone.status == 1 && alone.error.contains("a second person must"), "\(login): \(alone)")
        }
        let plain = try await daemon.run(.alice, "approval", "approve", approval)
        #expect(plain.status == 1 && plain.error.contains("a second person must"), "\(plain)")
        #expect(try await daemon.state(merchant) == "suspended")
        // The list of approvals shows the requester's login uid and account, which the requesting process cannot
        // choose.
        let shown = try await daemon.approval(approval)
        #expect(shown?.objectValue?["requester"]?.numberValue?.int == Int(Staff.alice.rawValue))
        #expect(shown?.objectValue?["requesterLoginUid"]?.numberValue?.int == 5555)
        #expect(try await daemon.run(.bob, "approval", "approve", approval).status == 0)
        #expect(try await daemon.state(merchant) == "active")
        #expect(try await daemon.harness.stop().status == 0)
    }

    @Test(
        "refuses requests, approvals and withdrawals of a caller whose process has ended",
        .enabled("run it where root can set a login uid, outside a container") { try await Staff.canLogIn() })
    func endedProcess() async throws {
        let daemon = try await StaffedDaemon()
        let merchant = try await daemon.merchant("ended")
        #expect(try await daemon.run(.bob, "key", "suspend", merchant.hex, "--reason", "r").status == 0)
        let resume = ["to": "active", "reason": "r"]
        let change = "/v1/keys/\(merchant.hex)/state"
        let unasked = try await daemon.post(change, resume, as: .alice, login: .alice, process: .ended)
        Self.expectUnknown(unasked)
        let asked = try await daemon.post(change, resume, as: .alice, login: .alice, process: .running)
        #expect(asked.status == 202, "\(asked)")
        let approval = try #require(asked.string("approval"))
        let path = "/v1/approvals/\(approval)"
        // Alice acts as bob with su. The process whose login uid identifies her as alice has ended, so the daemon
        // cannot identify the caller.
        for decision in ["approve", "reject"] {
            let hidden = try await daemon.post(path, ["decision": decision], as: .bob, login: .alice, process: .ended)
            Self.expectUnknown(hidden)
        }
        Self.expectUnknown(
            try await daemon.post(path, ["decision": "withdraw"], as: .alice, login: .alice, process: .ended))
        let su = try await daemon.post(path, ["decision": "approve"], as: .bob, login: .alice, process: .running)
        #expect(su.status == 422 && su.code == "approval_invalid", "\(su)")
        #expect(try await daemon.state(merchant) == "suspended")
        let bob = try await daemon.post(path, ["decision": "approve"], as: .bob, login: .bob, process: .running)
        #expect(bob.status == 200, "\(bob)")
        #expect(try await daemon.state(merchant) == "active")
        #expect(try await daemon.harness.stop().status == 0)
    }

    private static func expectUnknown(_ answer: ChildAnswer) {
        #expect(answer.status == 403 && answer.code == "forbidden", "\(answer)")
        #expect(
            answer.string("message")?.contains("keep that process running") == true, "\(answer)")
    }
}

extension Staff {
    /// Returns true if a process of the staff can set its login uid. The kernel requires no privilege while none is
    /// set.
    static func canAssumeLogin() async throws -> Bool {
        guard try await canAct() else { return false }
        let assumed = try await alice.identity.run(
            Program.installed("sh"), ["-c", "echo 22000 > /proc/self/loginuid"])
        return assumed.status == 0
    }
}

/// The daemon's answer to a request on a connection that a child process opened.
struct ChildAnswer: CustomStringConvertible {
    let status: Int
    let body: JSONValue

    func string(_ name: String) -> String? { body.string(name) }
    var code: String? { string("code") }
    var description: String { "\(status) \(body)" }
}

extension StaffedDaemon {
    /// Runs `paytokenctl` in a process that sets its login uid without privileges.
    func run(_ who: Staff, assuming login: UInt32, _ arguments: String...) async throws -> ProgramResult {
        try await who.identity.run(
            Program.installed("sh"),
            ["-c", "echo \"$0\" > /proc/self/loginuid && exec \"$@\"", String(login), Program.built("paytokenctl")]
                + arguments,
            environment: ["PAYTOKEND_SOCKET": harness.socket, "PAYTOKEND_ADMIN_SOCKET": harness.adminSocket])
    }

    /// The state of the connecting process when the daemon accepts the connection.
    enum ConnectingProcess: String {
        case running, ended
    }

    /// Sends a POST request to the admin socket over a connection that a child process opened and its parent uses.
    ///
    /// - Parameter login: the person whose login uid the child process has.
    func post(
        _ path: String, _ body: [String: String], as who: Staff, login: Staff, process: ConnectingProcess
    ) async throws -> ChildAnswer {
        let members = body.map { "\"\($0.key)\":\"\($0.value)\"" }.joined(separator: ",")
        let result = try await Program.run(
            Program.installed("python3"),
            [
                "-B", "-c", Self.connectInChild, harness.adminSocket, String(try harness.daemon.processIdentifier),
                String(who.rawValue), String(login.rawValue), process.rawValue, path, "{\(members)}",
            ])
        try #require(result.status == 0, "\(result)")
        let halves = result.output.components(separatedBy: "\n")
        return ChildAnswer(
            status: Int(halves[0]) ?? 0, body: try JSONValue(parsing: halves.dropFirst().joined(separator: "\n")))
    }

    /// A Python program that connects in a child process. The daemon is stopped during that time. It can therefore
    /// accept the connection after the child has ended.
    private static let connectInChild = """
        import http.client, os, signal, socket, sys, time

        path, daemon, uid, login, process, target, body = sys.argv[1:]
        daemon, uid = int(daemon), int(uid)

        def stopped():
            states = []
            for task in os.listdir(f"/proc/{daemon}/task"):
                with open(f"/proc/{daemon}/task/{task}/stat") as stat:
                    states.append(stat.read().rpartition(")")[2].split()[0])
            return all(state == "T" for state in states)

        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        reading, writing = os.pipe()
        os.kill(daemon, signal.SIGSTOP)
        try:
            while not stopped():
                time.sleep(0.001)
            child = os.fork()
            if child == 0:
                try:
                    os.close(writing)
                    with open("/proc/self/loginuid", "w") as file:
                        file.write(login)
                    os.setgroups([])
                    os.setresgid(uid, uid, uid)
                    os.setresuid(uid, uid, uid)
                    connection.connect(path)
                    if process == "running":
                        os.read(reading, 1)
                finally:
                    os._exit(0)
            if process == "ended":
                os.waitpid(child, 0)
            else:
                while True:
                    try:
                        connection.getpeername()
                        break
                    except OSError:
                        if os.waitpid(child, os.WNOHANG)[0]:
                            sys.exit("the child could not connect")
                        time.sleep(0.001)
        finally:
            os.kill(daemon, signal.SIGCONT)

        client = http.client.HTTPConnection("localhost")
        connection.settimeout(60)
        client.sock = connection
        client.request("POST", target, body, {"Content-Type": "application/json"})
        answer = client.getresponse()
        print(answer.status)
        print(answer.read().decode(), end="")
        os.close(writing)
        if process == "running":
            os.waitpid(child, 0)
        """
}
