import PKCS11
import TestSupport
import Testing
import WorkerProtocol

@testable import HSMWorker

/// Sessions and logins that end while the worker serves. The tests end them in place of the HSM token.
@Suite struct SessionRepairTests {
    @Test("reopens a closed session during a call")
    func closedSession() throws {
        let harness = try OpenTokenHarness()
        let payment = try harness.payment()
        var session = Session(closedIn: harness.softHSM.slot)
        #expect(try harness.decrypt(payment, in: &session).get() == payment.plaintext)
        let isOpen = session.isOpen
        #expect(isOpen)
    }

    @Test("renews a login that the HSM token ended during a call, once for all sessions")
    func loggedOut() throws {
        let harness = try OpenTokenHarness()
        var first = try harness.softHSM.openSession()
        var second = try harness.softHSM.openSession()
        for _ in 0..<2 {
            try first.logOut()
            for _ in 0..<3 {
                let payment = try harness.payment()
                #expect(try harness.decrypt(payment, in: &first).get() == payment.plaintext)
                #expect(try harness.decrypt(payment, in: &second).get() == payment.plaintext)
            }
            #expect(try first.loggedInUser() == .user)
        }
    }

    @Test("renews a login before requests other than decryption")
    func restore() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        try session.logOut()
        var deadline = CallDeadline(callTimeout: 10_000)
        try harness.hsmToken.restore(&session, &deadline)
        #expect(try session.loggedInUser() == .user)
        #expect(harness.hsmToken.keys.all.count == 1)
    }

    @Test("searches for a key again during a call if its objects were replaced")
    func replacedKey() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        for object in try session.findObjects(matching: [.objectClass(.privateKey)]) {
            try session.destroyObject(object)
        }
        for object in try session.findObjects(matching: [.objectClass(.publicKey)]) {
            try session.destroyObject(object)
        }
        try OpenTokenHarness.store(SharedForge.ecMerchant, in: &session)
        let payment = try harness.payment()
        #expect(try harness.decrypt(payment, in: &session).get() == payment.plaintext)
    }

    @Test("reports the HSM token as unavailable if a key has vanished from it")
    func vanishedKey() throws {
        let harness = try OpenTokenHarness()
        var session = try harness.softHSM.openSession()
        for object in try session.findObjects(matching: []) { try session.destroyObject(object) }
        guard case .failure(let failure) = harness.decrypt(try harness.payment(), in: &session) else {
            Issue.record("opened without a key")
            return
        }
        #expect(failure.kind == .hsmTokenUnavailable)
    }
}
